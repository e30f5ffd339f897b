"""`hk.avg_pool` and `hk.max_pool`, which the modules call, as "nn.avg_pool" and "nn.max_pool"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites, Replacement

__all__ = ["composites"]

composites = Composites()

#: One number for every spatial axis, or one for each of the last axes.
_Sizes = int | Sequence[int]


@composites.call("haiku:avg_pool", name="nn.avg_pool", keep_under_vmap=True)
def avg_pool(
    value: jax.Array, window_shape: _Sizes, strides: _Sizes, padding: str, channel_axis: int | None = -1
) -> Call | Replacement | None:
    """Kept because the primitives divide a sum by the number of elements, which is computed where sizes are symbolic."""
    import haiku as hk

    return _pooling(hk.avg_pool, value, window_shape, strides, padding, channel_axis, count_include_pad=False)


@composites.call("haiku:max_pool", name="nn.max_pool", keep_under_vmap=True)
def max_pool(
    value: jax.Array, window_shape: _Sizes, strides: _Sizes, padding: str, channel_axis: int | None = -1
) -> Call | Replacement | None:
    """Kept because the primitives guard a maximum against NaN, with an If and a dozen operators."""
    import haiku as hk

    return _pooling(hk.max_pool, value, window_shape, strides, padding, channel_axis)


def _of_all_axes(sizes: _Sizes, rank: int, channel_axis: int | None) -> tuple[int, ...]:
    """A size for each of `rank` axes, 1 for the axes of batch and channels."""
    if isinstance(sizes, int):
        channels = channel_axis if channel_axis is None else channel_axis % rank
        return (1, *(1 if axis == channels else sizes for axis in range(1, rank)))
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def _has_channels_first(window: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    return len(window) > 2 and window[:2] == steps[:2] == (1, 1) and window[-1] != 1


def _moved(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of [B, C, *space] in the order of [B, *space, C]."""
    return (sizes[0], *sizes[2:], sizes[1])


def _pooling(
    function: Callable[..., jax.Array],
    value: jax.Array,
    window_shape: _Sizes,
    strides: _Sizes,
    padding: str,
    channel_axis: int | None,
    **options: bool,
) -> Call | Replacement | None:
    window, steps = (_of_all_axes(sizes, value.ndim, channel_axis) for sizes in (window_shape, strides))
    if _has_channels_first(window, steps):
        moved = function(jnp.moveaxis(value, 1, -1), _moved(window), _moved(steps), padding)
        return Replacement(jnp.moveaxis(moved, -1, 1))
    if (window[-1], steps[-1]) != (1, 1):
        return None
    first = 1 if (window[0], steps[0]) == (1, 1) else 0
    return Call(value, window=window[first:-1], strides=steps[first:-1], padding=padding, **options)
