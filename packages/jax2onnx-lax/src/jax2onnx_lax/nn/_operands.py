"""Helpers of layer operations and of their bindings: static sizes, axes counted from the end, constants, layouts of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import is_static

__all__ = [
    "axes_from_start",
    "channels_first",
    "channels_last",
    "filled",
    "static_sizes",
    "with_one_batch_axis",
]


def static_sizes(ctx: Context, dims: Sequence[Dim]) -> tuple[int, ...]:
    """The dimensions as integers; declines where one is symbolic."""
    sizes = tuple(int(d) for d in dims if is_static(d))
    if len(sizes) < len(dims):
        ctx.decline("a size that has to be a number is symbolic")
    return sizes


def filled(ctx: Context, size: int | Sequence[int], value: float, *, like: Value) -> Value:
    """A constant array whose elements are all equal.

    Args:
      ctx: the context of the rule.
      size: the number of elements, or the shape.
      value: the value of all elements.
      like: a value of the wanted dtype.
    """
    return ctx.constant(np.full(size, value), like=like)


def axes_from_start(ctx: Context, x: Value, axes: Sequence[int]) -> Value:
    """The operand `axes` of an operator, counted from the start: a runtime may ignore negative axes where `x` has no elements.

    Args:
      ctx: the context of the rule.
      x: the array that the operator reduces.
      axes: axes of `x`, counted from the end (negative).

    Returns:
      An int64 constant of one axis.
    """
    rank = len(ctx.known_dims(x))
    return ctx.ints([rank + axis for axis in axes])


def channels_first(rank: int) -> tuple[int, ...]:
    """The permutation of [B, *space, C] to [B, C, *space], with `rank` spatial axes."""
    return (0, rank + 1, *range(1, rank + 1))


def channels_last(rank: int) -> tuple[int, ...]:
    """The permutation of [B, C, *space] to [B, *space, C], with `rank` spatial axes."""
    return (0, *range(2, rank + 2), 1)


def with_one_batch_axis(ctx: Context, x: Value, rank: int) -> Value:
    """Images with any number of batch axes as images with one.

    Args:
      ctx: the context of the rule.
      x: [*batch, C, *space] or [*batch, *space, C].
      rank: the number of spatial axes.

    Returns:
      [B, C, *space] or [B, *space, C], B being the product of the batch axes (1 for none).
    """
    dims = ctx.known_dims(x)
    batch = dims[: -rank - 1]
    if not batch:
        return ctx.unsqueeze(x, [0])
    return x if len(batch) == 1 else ctx.reshape(x, (math.prod(batch), *dims[-rank - 1 :]))
