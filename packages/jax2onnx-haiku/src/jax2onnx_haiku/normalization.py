"""The normalisations of Haiku as "nn.layer_norm", "nn.rms_norm", "nn.group_norm" and "nn.batch_norm"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_core.jaxprs import is_static
from jax2onnx_lax.nn.bindings import axes_from_end

from jax2onnx_haiku._layer import parameters

if TYPE_CHECKING:
    import haiku as hk

__all__ = ["composites"]

composites = Composites()

#: Axes, negative from the end.
_Axes = tuple[int, ...]
#: A scale and an offset.
_Weights = list[jax.Array | None]


# -- over the last axes ---------------------------------------------------------------------


@composites.call("haiku:LayerNorm.__call__.__wrapped__", name="nn.layer_norm", keep_under_vmap=(0,))
def layer_norm(
    self: hk.LayerNorm, inputs: jax.Array, scale: jax.Array | None = None, offset: jax.Array | None = None
) -> Call | Replacement | None:
    """Bind `hk.LayerNorm`, and `hk.InstanceNorm`, which is a layer norm over the spatial axes.

    Kept because of several axes, and in half precision, the statistics would be ten operators more than
    LayerNormalization.
    """
    axes, owned = _axes(self.axis, inputs.ndim), _axes(self.param_axis, inputs.ndim)
    shape = inputs.shape[-1:] if owned == (-1,) else _sizes(inputs, owned)
    weights = _scale_and_offset(self, inputs, shape)
    if scale is not None or offset is not None or weights is None:
        return None
    if inputs.ndim > 2 and len(owned) == 1 and axes == _others(owned, inputs.ndim)[1:]:
        return Replacement(_in_groups(inputs, weights, owned[0], inputs.shape[owned[0]], self.eps))
    normalised = inputs.shape[-len(axes) :]
    if axes != tuple(range(-len(axes), 0)) or not set(owned) <= set(axes) or not all(map(is_static, normalised)):
        return None
    spread = [w if w is None or owned == axes == (-1,) else _spread(w, normalised) for w in weights]
    return Call(inputs, *spread, axes=len(axes), epsilon=float(self.eps))


@composites.call("haiku:RMSNorm.__call__.__wrapped__", name="nn.rms_norm", keep_under_vmap=(0,))
def rms_norm(self: hk.RMSNorm, inputs: jax.Array) -> Call | None:
    """Kept because the layer's own formula would be 10 operators more than RMSNormalization."""
    if _axes(self.axis, inputs.ndim) != (-1,) or _axes(self.param_axis, inputs.ndim) != (-1,):
        return None
    weights = parameters(inputs, scale=(inputs.shape[-1:], self.scale_init) if self.create_scale else None)
    return None if weights is None else Call(inputs, *weights, epsilon=float(self.eps))


def _spread(weight: jax.Array, shape: Sequence[int]) -> jax.Array:
    """A weight that broadcasts with the normalised axes, broadcast to their shape."""
    return jnp.broadcast_to(weight.reshape(weight.shape[-len(shape) :]), shape)


# -- in groups of channels ------------------------------------------------------------------


@composites.call("haiku:GroupNorm.__call__.__wrapped__", name="nn.group_norm")
def group_norm(
    self: hk.GroupNorm, x: jax.Array, scale: jax.Array | None = None, offset: jax.Array | None = None
) -> Replacement | None:
    # The first call of the layer itself replaces its axes by others.
    """Kept because the statistics of the groups would be computed by 15 operators more than InstanceNormalization
    needs.
    """
    if scale is not None or offset is not None or _axes(self.axis, x.ndim) != tuple(range(1 - x.ndim, 0)):
        return None
    if not isinstance(self.axis, slice) and min(self.axis) < 0:  # they are those of the groups, which are one more
        return None
    channels = _axes((self.channel_index,), x.ndim)
    weights = _scale_and_offset(self, x, _sizes(x, channels)[channels[0] :])
    return None if weights is None else Replacement(_in_groups(x, weights, channels[0], self.groups, self.eps))


def _in_groups(x: jax.Array, weights: _Weights, channels: int, groups: int, epsilon: float) -> jax.Array:
    scale, offset = (None if w is None else w.reshape(-1) for w in weights)
    y = normalised_groups(jnp.moveaxis(x, channels, -1), scale, offset, groups=groups, epsilon=float(epsilon))
    return jnp.moveaxis(y, -1, channels)


def normalised_groups(
    x: jax.Array, scale: jax.Array | None, offset: jax.Array | None, *, groups: int, epsilon: float
) -> jax.Array:
    """Group norm in operations of JAX.

    Args:
      x: images, [B, *space, C].
      scale: [C], or None.
      offset: [C], or None.
      groups: the number of groups of neighbouring channels, each of which gets mean 0 and variance 1 in each image.
      epsilon: a number that is added to the variance.

    Returns:
      An array of the shape of `x`.
    """
    grouped = x.reshape(*x.shape[:-1], groups, -1)
    axes = (*range(1, x.ndim - 1), x.ndim)
    mean, variance = grouped.mean(axes, keepdims=True), grouped.var(axes, keepdims=True)
    y = ((grouped - mean) * jax.lax.rsqrt(variance + epsilon)).reshape(x.shape)
    y = y if scale is None else y * scale
    return y if offset is None else y + offset


@composites.call("jax2onnx_haiku.normalization:normalised_groups", name="nn.group_norm")
def groups_call(
    x: jax.Array, scale: jax.Array | None, offset: jax.Array | None, *, groups: int, epsilon: float
) -> Call:
    """Kept as the part of the layers that is one operation."""
    return Call(x, scale, offset, groups=groups, epsilon=epsilon)


# -- by given statistics --------------------------------------------------------------------


@composites.call("haiku:BatchNorm.__call__.__wrapped__", name="nn.batch_norm", keep_under_vmap=(0,))
def batch_norm(
    self: hk.BatchNorm,
    inputs: jax.Array,
    is_training: bool,
    test_local_stats: bool = False,
    scale: jax.Array | None = None,
    offset: jax.Array | None = None,
) -> Call | None:
    """Bind `hk.BatchNorm` at inference, with the statistics of each channel.

    Kept because the mean would be subtracted by an operator of its own.
    """
    if is_training or test_local_stats or scale is not None or offset is not None:
        return None
    channels = _axes((self.channel_index,), inputs.ndim)
    others = _others(channels, inputs.ndim)
    if self.axis is not None and _axes(self.axis, inputs.ndim) != others:
        return None
    weights = _scale_and_offset(self, inputs, _sizes(inputs, channels))
    if weights is None:
        return None
    statistics = [ema.average.astype(inputs.dtype) for ema in (self.mean_ema, self.var_ema)]
    return Call(inputs, *statistics, *weights, axis=channels[0], epsilon=float(self.eps))


# -- parameters -----------------------------------------------------------------------------


def _scale_and_offset(
    layer: hk.LayerNorm | hk.GroupNorm | hk.BatchNorm, inputs: jax.Array, shape: Sequence[int]
) -> _Weights | None:
    """The scale and the offset of this shape, or None for each that the layer does not have."""
    return parameters(
        inputs,
        scale=(shape, layer.scale_init) if layer.create_scale else None,
        offset=(shape, layer.offset_init) if layer.create_offset else None,
    )


def _sizes(inputs: jax.Array, axes: _Axes) -> tuple[int, ...]:
    """The shape of the input, with 1 for all axes but `axes`."""
    return tuple(size if axis in axes else 1 for axis, size in enumerate(inputs.shape, -inputs.ndim))


def _axes(axes: Sequence[int] | slice, rank: int) -> _Axes:
    """The axes of a layer of Haiku, counted from the end; empty if one is no axis of the input."""
    return axes_from_end(range(rank)[axes] if isinstance(axes, slice) else axes, rank) or ()


def _others(axes: _Axes, rank: int) -> _Axes:
    return tuple(axis for axis in range(-rank, 0) if axis not in axes)
