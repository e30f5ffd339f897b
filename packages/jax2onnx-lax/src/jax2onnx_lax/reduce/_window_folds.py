"""Reductions of windows by folding shifted slices, for any associative and commutative operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.errors import InconclusiveDimensionOperation
from jax2onnx_core.jaxprs import Dim, definitely_le, is_static

from jax2onnx_lax._compat import max_dim
from jax2onnx_lax.contract._im2col import windows
from jax2onnx_lax.monoids import Combine, Monoid, Scalar
from jax2onnx_lax.padding import at_least_one
from jax2onnx_lax.reduce._folds import fold_axis
from jax2onnx_lax.reduce._windows import Windows

__all__ = ["fold_windows", "reduce_windows"]

# Up to this size a window is folded element by element, beyond by doubling.
_SMALL = 6


def reduce_windows(x: Array, *, monoid: Monoid, shape: Windows) -> Array:
    """Reduce each window of an array by a monoid, from its identity.

    Args:
      x: the array.
      monoid: an associative and commutative operation and its identity.
      shape: the windows.
    """
    if shape.covers(x.shape):
        return lax.expand_dims(monoid.reduce(x, tuple(shape.active)), shape.active)
    return fold_windows(
        [x], [monoid.identity(x.dtype)], lambda a, b: [monoid.combine(a, b)], shape,
        neutral=True, idempotent=monoid.idempotent,
    )[0]  # fmt: skip


def fold_windows(
    xs: Sequence[Array], initial: Sequence[Scalar], combine: Combine, shape: Windows, *, neutral: bool,
    idempotent: bool,
) -> Sequence[Array]:  # fmt: skip
    """Combine the elements of each window with one another, axis after axis, and with the initial values.

    Padding is left out, as XLA's CPU backend does.

    Args:
      xs: arrays of equal shape, which are combined together.
      initial: a scalar for each.
      combine: an associative and commutative operation, see `Combine`.
      shape: the windows.
      neutral: whether the initial values change nothing.
      idempotent: whether combining a value with itself gives that value, so that slices may overlap.

    Returns:
      An array of the windows for each of `xs`.
    """
    counts = shape.counts(xs[0].shape)
    if any(is_static(c) and c == 0 for c in counts):
        return [jnp.broadcast_to(jnp.asarray(value, x.dtype), counts) for value, x in zip(initial, xs, strict=True)]
    if shape.has_gaps and not neutral:
        return _fold_elements(xs, initial, combine, shape)
    xs = [shape.pad(x, value) for x, value in zip(xs, initial, strict=True)]
    for axis in shape.active:
        stride, dilation = shape.window_strides[axis], shape.window_dilation[axis]
        fold = _AxisFold(axis, stride, dilation, counts[axis], combine)
        size = shape.window_dimensions[axis]
        xs = fold.by_slices(xs, size, idempotent) if is_static(size) else fold.by_rows(xs, size, initial)
    if neutral:
        return xs
    return combine(*[jnp.broadcast_to(value, x.shape) for value, x in zip(initial, xs, strict=True)], *xs)


def _fold_elements(
    xs: Sequence[Array], initial: Sequence[Scalar], combine: Combine, shape: Windows
) -> Sequence[Array]:  # fmt: skip
    """`fold_windows` with a mask of the elements, which is folded along with them, so that padding changes nothing."""
    dims = [n if axis in shape.active else 1 for axis, n in enumerate(xs[0].shape)]

    def combine_elements(*operands: Array) -> Sequence[Array]:
        left, right = operands[: len(xs)], operands[len(xs) + 1 : -1]
        is_left, is_right = operands[len(xs)], operands[-1]
        both = [
            jnp.where(is_left & is_right, x, jnp.where(is_left, a, b))
            for x, a, b in zip(combine(*left, *right), left, right, strict=True)
        ]
        return [*both, is_left | is_right]

    *folded, found = fold_windows(
        [*xs, jnp.ones(dims, np.bool_)], [*initial, np.bool_(False)], combine_elements, shape, neutral=True,
        idempotent=False,
    )  # fmt: skip
    start = [jnp.broadcast_to(value, x.shape) for value, x in zip(initial, folded, strict=True)]
    whole = combine(*start, *folded)
    return [jnp.where(found, x, value) for x, value in zip(whole, start, strict=True)]


@dataclasses.dataclass(frozen=True)
class _AxisFold:
    """The combination of the windows along one axis: `count` windows, `stride` apart."""

    axis: int
    stride: int
    dilation: int
    count: Dim
    combine: Combine

    def by_slices(self, xs: Sequence[Array], size: int, idempotent: bool) -> Sequence[Array]:
        """Windows of static size; large ones, if surely no larger than the axis, by doubling."""
        fits = definitely_le((size - 1) * self.dilation, xs[0].shape[self.axis])
        return self._by_doubling(xs, size, idempotent) if size > _SMALL and fits else self._by_element(xs, size)

    def by_rows(self, xs: Sequence[Array], size: Dim, initial: Sequence[Scalar]) -> Sequence[Array]:
        """Windows of symbolic size: all of them side by side, folded along their elements."""
        rows = [jnp.moveaxis(windows(x, self.axis, size, self.stride, self.dilation), self.axis + 1, 0) for x in xs]
        first = [row[0] for row in rows]
        return fold_axis([row[1:] for row in rows], first, self.combine, neutral=False)

    def _elements(self, xs: Sequence[Array], place: int) -> list[Array]:
        """The element, or partial result, at `place` in every window."""
        return [_strided(x, place * self.dilation, self.count, self.stride, self.axis) for x in xs]

    def _by_element(self, xs: Sequence[Array], size: int) -> Sequence[Array]:
        total: Sequence[Array] = self._elements(xs, 0)
        for place in range(1, size):
            total = self.combine(*total, *self._elements(xs, place))
        return total

    def _by_doubling(self, xs: Sequence[Array], size: int, idempotent: bool) -> Sequence[Array]:
        """Put windows of `size` together from windows of 1, 2, 4, … elements."""
        levels = self._powers_of_two(xs, size)
        top = len(levels) - 1
        total: Sequence[Array] = self._elements(levels[top], 0)
        done = 2**top
        if idempotent and done < size:
            return self.combine(*total, *self._elements(levels[top], size - done))
        for bit in reversed(range(top)):
            if size >> bit & 1:
                total = self.combine(*total, *self._elements(levels[bit], done))
                done += 2**bit
        return total

    def _powers_of_two(self, xs: Sequence[Array], size: int) -> list[Sequence[Array]]:
        """The combinations of 1, 2, 4, … elements, `dilation` apart, beginning at each place; up to `size` elements."""
        levels: list[Sequence[Array]] = [xs]
        while 2 ** len(levels) <= size:
            shift = 2 ** (len(levels) - 1) * self.dilation
            low = [lax.slice_in_dim(x, 0, x.shape[self.axis] - shift, 1, self.axis) for x in levels[-1]]
            high = [lax.slice_in_dim(x, shift, x.shape[self.axis], 1, self.axis) for x in levels[-1]]
            levels.append(self.combine(*low, *high))
        return levels


def _strided(x: Array, start: int, count: Dim, stride: int, axis: int) -> Array:
    """`count` elements along an axis.

    Where JAX cannot prove that a symbolic limit is not negative, which a slice has to be, they are taken by their indices.
    """
    try:
        return lax.slice_in_dim(x, start, start + (count - 1) * stride + 1, stride, axis)
    except InconclusiveDimensionOperation:
        indices = start + stride * lax.iota(np.int32, max_dim(count, 0))
        return at_least_one(x, axis).at[(*[slice(None)] * axis, indices)].get(mode="clip", indices_are_sorted=True)
