"""The normalisations of `flax.linen` as "nn.batch_norm", "nn.layer_norm", "nn.rms_norm" and "nn.group_norm"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.nn.bindings import axes_from_end, axis_from_end

from jax2onnx_linen._layer import Parameters, parameters, plain, variable

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:BatchNorm.__call__.__wrapped__", name="nn.batch_norm", keep_under_vmap=(0,))
def batch_norm(
    self: nn.BatchNorm,
    x: jax.Array,
    use_running_average: bool | jax.Array | None = None,
    *,
    mask: jax.Array | None = None,
) -> Call | Replacement | None:
    """Kept because the mean would be subtracted by an operator of its own, and Python's `if` fails on a flag that is
    an input of the model.
    """
    inference = self.use_running_average if use_running_average is None else use_running_average
    if (
        isinstance(inference, jax.core.Tracer)
        and self.is_mutable_collection("batch_stats")
        and not self.is_initializing()
    ):
        return Replacement(_at_run_time(self, x, mask, inference))
    axis = axis_from_end(self.axis, x.ndim)
    mean, variance = (variable(self, "batch_stats", name) for name in ("mean", "var"))
    if inference is not True or axis is None or mean is None or variance is None:
        return None
    arrays = _arrays(self, x, mean, variance, bias=self.use_bias)
    return None if arrays is None else Call(*arrays, axis=axis, epsilon=float(self.epsilon))


def _at_run_time(layer: nn.BatchNorm, x: jax.Array, mask: jax.Array | None, inference: jax.Array) -> jax.Array:
    """The layer at inference or in training, by a flag that is known at run time only; the statistics change in both."""
    import flax.linen as nn

    def run(inference: bool) -> tuple[jax.Array, Mapping[str, jax.Array]]:
        copy = plain(layer, nn.BatchNorm, use_running_average=inference)
        y, changed = copy.apply(layer.variables, x, mask=mask, mutable=["batch_stats"])
        return y, changed["batch_stats"]

    y, statistics = jax.lax.cond(inference, lambda: run(True), lambda: run(False))
    for name, value in statistics.items():
        layer.put_variable("batch_stats", name, value)
    return y


@composites.call("flax.linen:LayerNorm.__call__.__wrapped__", name="nn.layer_norm", keep_under_vmap=(0,))
def layer_norm(self: nn.LayerNorm, x: jax.Array, *, mask: jax.Array | None = None) -> Call | None:
    """Kept because in half precision the casts of the layer to float32 would stay around the operator."""
    return _over_last_axis(self, x, mask, bias=self.use_bias)


@composites.call("flax.linen:RMSNorm.__call__.__wrapped__", name="nn.rms_norm", keep_under_vmap=(0,))
def rms_norm(self: nn.RMSNorm, x: jax.Array, *, mask: jax.Array | None = None) -> Call | None:
    """Kept because the layer's own formula would be 12 operators more than RMSNormalization."""
    return _over_last_axis(self, x, mask)


@composites.call("flax.linen:GroupNorm.__call__.__wrapped__", name="nn.group_norm")
def group_norm(self: nn.GroupNorm, x: jax.Array, *, mask: jax.Array | None = None) -> Call | None:
    """Kept because the statistics of the groups would be computed by 14 operators more than InstanceNormalization
    needs.
    """
    if mask is not None or self.axis_name is not None or self.reduction_axes is not None or x.ndim < 2:
        return None
    groups = self.num_groups if self.group_size is None else x.shape[-1] // self.group_size
    arrays = _arrays(self, x, bias=self.use_bias)
    return None if arrays is None else Call(*arrays, groups=groups, epsilon=float(self.epsilon))


@composites.call("flax.linen:InstanceNorm.__call__.__wrapped__", name="nn.group_norm")
def instance_norm(self: nn.InstanceNorm, x: jax.Array, *, mask: jax.Array | None = None) -> Call | None:
    """Kept because the statistics of the groups would be computed by 16 operators more than InstanceNormalization
    needs.
    """
    if mask is not None or self.axis_name is not None or x.ndim < 3:
        return None
    arrays = _arrays(self, x, bias=self.use_bias) if axes_from_end(self.feature_axes, x.ndim) == (-1,) else None
    return None if arrays is None else Call(*arrays, groups=x.shape[-1], epsilon=float(self.epsilon))


def _over_last_axis(
    layer: nn.LayerNorm | nn.RMSNorm, x: jax.Array, mask: jax.Array | None, **used: bool
) -> Call | None:
    if mask is not None or layer.axis_name is not None:
        return None
    if axes_from_end(layer.reduction_axes, x.ndim) != (-1,) or axes_from_end(layer.feature_axes, x.ndim) != (-1,):
        return None
    arrays = _arrays(layer, x, **used)
    return None if arrays is None else Call(*arrays, epsilon=float(layer.epsilon))


def _arrays(
    layer: nn.BatchNorm | nn.LayerNorm | nn.RMSNorm | nn.GroupNorm | nn.InstanceNorm, *operands: jax.Array, **used: bool
) -> Parameters | None:
    """The operands, the scale, and the other parameters that are used; None unless all have one float dtype, that of the result."""
    found = parameters(layer, scale=layer.use_scale, **used)
    return (
        (*operands, *found) if found is not None and of_one_float_type(*operands, *found, dtype=layer.dtype) else None
    )
