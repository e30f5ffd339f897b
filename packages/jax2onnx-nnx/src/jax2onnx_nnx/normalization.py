"""The normalisations of `flax.nnx` as "nn.batch_norm", "nn.layer_norm", "nn.rms_norm" and "nn.group_norm"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_lax.nn.bindings import axes_from_end

from jax2onnx_nnx._layer import parameter, promoted
from jax2onnx_nnx.training_flag import batch_norm_at_run_time

if TYPE_CHECKING:
    from flax import nnx

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.nnx:BatchNorm.__call__", name="nn.batch_norm")
def batch_norm(
    self: nnx.BatchNorm,
    x: jax.Array,
    use_running_average: bool | jax.Array | None = None,
    *,
    mask: jax.Array | None = None,
) -> Call | Replacement | None:
    """Kept because the mean would be subtracted by an operator of its own, and Python's `if` fails on a flag that is
    an input of the model.
    """
    inference = self.use_running_average if use_running_average is None else use_running_average
    if isinstance(inference, jax.core.Tracer):
        return Replacement(batch_norm_at_run_time(self, x, inference, mask))
    statistics = (parameter(self.mean), parameter(self.var))
    arrays = promoted(self, x, *statistics, parameter(self.scale), parameter(self.bias)) if inference else None
    if arrays is None or not isinstance(self.axis, int):
        return None
    return Call(*arrays, axis=self.axis, epsilon=float(self.epsilon))


@composites.call("flax.nnx:LayerNorm.__call__", name="nn.layer_norm")
def layer_norm(self: nnx.LayerNorm, x: jax.Array, *, mask: jax.Array | None = None) -> Call | None:
    """Kept because in half precision the casts of the layer to float32 would stay around the operator."""
    return _over_last_axis(self, x, mask, parameter(self.bias))


@composites.call("flax.nnx:RMSNorm.__call__", name="nn.rms_norm")
def rms_norm(self: nnx.RMSNorm, x: jax.Array, mask: jax.Array | None = None) -> Call | None:
    """Kept because the layer's own formula would be 12 operators more than RMSNormalization."""
    return _over_last_axis(self, x, mask)


@composites.call("flax.nnx:GroupNorm.__call__", name="nn.group_norm")
def group_norm(self: nnx.GroupNorm, x: jax.Array, *, mask: jax.Array | None = None) -> Call | None:
    """Kept because the statistics of the groups would be computed by 14 operators more than InstanceNormalization
    needs.
    """
    arrays = promoted(self, x, parameter(self.scale), parameter(self.bias))
    if arrays is None or mask is not None or self.axis_name is not None or self.reduction_axes is not None:
        return None
    return Call(*arrays, groups=self.num_groups, epsilon=float(self.epsilon)) if x.ndim >= 2 else None


@composites.call("flax.nnx:InstanceNorm.__call__", name="nn.group_norm")
def instance_norm(self: nnx.InstanceNorm, x: jax.Array, *, mask: jax.Array | None = None) -> Call | None:
    """Kept because the statistics of the groups would be computed by 16 operators more than InstanceNormalization
    needs.
    """
    arrays = promoted(self, x, parameter(self.scale), parameter(self.bias))
    if arrays is None or mask is not None or self.axis_name is not None or x.ndim < 3:
        return None
    if axes_from_end(self.feature_axes, x.ndim) != (-1,):
        return None
    return Call(*arrays, groups=x.shape[-1], epsilon=float(self.epsilon))


def _over_last_axis(
    layer: nnx.LayerNorm | nnx.RMSNorm, x: jax.Array, mask: jax.Array | None, *bias: jax.Array | None
) -> Call | None:
    arrays = promoted(layer, x, parameter(layer.scale), *bias)
    if arrays is None or mask is not None or layer.axis_name is not None:
        return None
    if axes_from_end(layer.reduction_axes, x.ndim) != (-1,) or axes_from_end(layer.feature_axes, x.ndim) != (-1,):
        return None
    return Call(*arrays, epsilon=float(layer.epsilon))
