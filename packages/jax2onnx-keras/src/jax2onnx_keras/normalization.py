"""Normalisations as "nn.layer_norm", "nn.rms_norm" and "nn.group_norm"; `BatchNormalization` needs no composite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_core.jaxprs import is_static
from jax2onnx_lax.nn.bindings import axes_from_end, axis_from_end

from jax2onnx_keras._layer import array, of_one_type

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.src.ops.nn:_layer_normalization", name="nn.layer_norm", keep_under_vmap=(0,))
def layer_norm(
    x: jax.Array,
    gamma: keras.Variable | jax.Array | None = None,
    beta: keras.Variable | jax.Array | None = None,
    axis: int | Sequence[int] = -1,
    epsilon: float | None = None,
    rms_scaling: bool = False,
) -> Call | None:
    """Kept because the function's own formula would be thirteen operators more than LayerNormalization."""
    count = _trailing(x, axis, array(gamma), array(beta))
    if count is None or rms_scaling:
        return None
    return Call(x, array(gamma), array(beta), axes=count, epsilon=_epsilon(epsilon))


@composites.call("keras.src.ops.nn:_rms_normalization", name="nn.rms_norm", keep_under_vmap=(0,))
def rms_norm(
    x: jax.Array,
    scale: keras.Variable | jax.Array | None = None,
    axis: int | Sequence[int] = -1,
    epsilon: float | None = None,
) -> Call | None:
    """Kept because before opset 23 the function's own formula is not the one that runtimes fuse."""
    count = _trailing(x, axis, array(scale))
    return None if count is None else Call(x, array(scale), axes=count, epsilon=_epsilon(epsilon))


@composites.call("keras.layers:GroupNormalization.call", name="nn.group_norm")
def group_norm(self: keras.layers.GroupNormalization, inputs: jax.Array) -> Call | None:
    """Kept because the statistics of the groups would be computed by 18 operators more than InstanceNormalization
    needs.
    """
    scale, bias = array(self.gamma) if self.scale else None, array(self.beta) if self.center else None
    if axis_from_end(self.axis, inputs.ndim) != -1 or not of_one_type(inputs, scale, bias):
        return None
    if inputs.dtype != self.compute_dtype:
        return None
    return Call(inputs, scale, bias, groups=self.groups, epsilon=float(self.epsilon))


def _trailing(x: jax.Array, axis: int | Sequence[int], *weights: jax.Array | None) -> int | None:
    """The number of normalised axes if these are the last ones and the weights have their shape; else None."""
    axes = axes_from_end(axis, x.ndim)
    if not axes or axes != tuple(range(-len(axes), 0)) or not of_one_type(x, *weights):
        return None
    sizes = x.shape[-len(axes) :]
    if not all(map(is_static, sizes)) or any(w is not None and w.shape != sizes for w in weights):
        return None
    return len(axes)


def _epsilon(given: float | None) -> float:
    import keras

    return float(keras.config.epsilon() if given is None else given)
