"""Reductions over axes by combining pairs of elements, for any associative operation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.monoids import Combine, Monoid, Scalar

__all__ = ["flatten_axes", "fold_axes", "fold_axis"]


def fold_axes(x: Array, axes: Sequence[int], monoid: Monoid) -> Array:
    """Reduce axes by combining halves, or step by step along a symbolic axis.

    Args:
      x: the array.
      axes: the axes, which the result does not have.
      monoid: the operation and its identity.
    """
    rows = [flatten_axes(x, axes)]
    return fold_axis(rows, [monoid.identity(x.dtype)], lambda a, b: [monoid.combine(a, b)], neutral=True)[0]


def flatten_axes(x: Array, axes: Sequence[int]) -> Array:
    """`x` with `axes` in front, as one axis."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    length = math.prod(x.shape[axis] for axis in axes)
    return lax.reshape(lax.transpose(x, [*axes, *rest]), (length, *(x.shape[axis] for axis in rest)))


def fold_axis(xs: Sequence[Array], initial: Sequence[Scalar], combine: Combine, *, neutral: bool) -> Sequence[Array]:
    """Combine the rows of each array in order, and put the initial values before them.

    Args:
      xs: arrays [rows, …] of equal shape, which are combined together.
      initial: a scalar or an array [...] for each.
      combine: an associative operation, see `Combine`.
      neutral: whether the initial values change nothing; they are then used for no rows only.

    Returns:
      An array [...] for each of `xs`.
    """
    length = xs[0].shape[0]
    start = [jnp.broadcast_to(value, x.shape[1:]).astype(x.dtype) for value, x in zip(initial, xs, strict=True)]
    if not is_static(length):
        total: Sequence[Array] = lax.scan(lambda carry, row: (list(combine(*carry, *row)), None), start, list(xs))[0]
        return total
    if length == 0:
        return start
    while xs[0].shape[0] > 1:
        xs = _half_as_many(xs, combine)
    result = [lax.squeeze(x, [0]) for x in xs]
    return result if neutral else combine(*start, *result)


def _half_as_many(xs: Sequence[Array], combine: Combine) -> Sequence[Array]:
    """The combinations of each row of even place with the next one; a last row without partner stays."""
    length = xs[0].shape[0]
    paired = length - length % 2
    left = [lax.slice_in_dim(x, 0, paired, 2) for x in xs]
    right = [lax.slice_in_dim(x, 1, paired, 2) for x in xs]
    merged = combine(*left, *right)
    if paired == length:
        return merged
    return [lax.concatenate([m, x[paired:]], 0) for m, x in zip(merged, xs, strict=True)]
