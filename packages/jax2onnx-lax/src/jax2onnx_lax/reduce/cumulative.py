"""Cumulative sums, products, extrema and log-sum-exp along an axis, in either direction."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Dim, Rules, Value
from jax2onnx_core.jaxprs import definitely_le, is_static

from jax2onnx_lax._numerics import computed_in
from jax2onnx_lax.complex._arrays import on_arrays
from jax2onnx_lax.dtypes import Dtype, is_float
from jax2onnx_lax.monoids import highest, lowest

__all__ = ["rules"]

rules = Rules()

Combine = Callable[[Array, Array], Array]
_SHORT = 128  # so many float32 numbers are added in sequence with an error of a few ulps


@rules.lower("cumsum")
def cumsum(ctx: Context, x: Value, *, axis: int, reverse: bool) -> Value:
    """CumSum in the accumulator's type, rounded once (floats) or wrapped around (integers)."""
    dtype = ctx.dtype(x)
    wide = ctx.cast(x, _accumulator(ctx, dtype, ctx.known_dims(x)[axis]))
    total = ctx.op.CumSum(wide, ctx.constant(axis, dtype=np.int64), reverse=int(reverse))
    return ctx.cast(total, dtype)


def _accumulator(ctx: Context, dtype: Dtype, length: Dim) -> Dtype:
    """The dtype in which CumSum, which adds one element after another, sums `length` numbers of a dtype.

    A long sum of float32 is as exact in float64 as that of XLA's CPU backend, which adds in a tree: its error grows with the
    logarithm of the length. Narrower floats have the accumulator of that backend, integers one that is equal modulo their range.
    """
    if dtype == np.float32 and not definitely_le(length, _SHORT) and ctx.supports("CumSum", np.float64):
        return np.dtype(np.float64)
    if is_float(dtype):
        return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    if dtype == np.uint32 and ctx.supports("CumSum", dtype):
        return dtype
    return np.dtype(np.int32 if dtype.itemsize < 4 or dtype == np.int32 else np.int64)


@rules.lower("cumprod")
def cumprod(ctx: Context, x: Value, *, axis: int, reverse: bool) -> Value:
    """CumProd of float32 and float64."""
    ctx.require("CumProd", x, since=26)
    if ctx.dtype(x) not in (np.float32, np.float64):
        ctx.pass_on("half precision is rounded once, at the end")
    return ctx.op.CumProd(x, ctx.constant(axis, dtype=np.int64), reverse=int(reverse))


def scan_by_doubling(x: Array, combine: Combine, identity: float | np.generic, axis: int, reverse: bool) -> Array:
    """All prefixes of an associative, commutative operation (Hillis and Steele, Data parallel algorithms, 1986).

    A static axis of length n takes log2(n) shifted combinations, a symbolic one a sequential scan.

    Args:
      x: the array.
      combine: the operation.
      identity: its neutral element.
      axis: the axis along which to combine.
      reverse: whether to begin at the end of the axis.

    Returns:
      An array of the shape of `x`.
    """
    length = x.shape[axis]
    if not is_static(length):
        return _scan_in_sequence(x, combine, identity, axis, reverse)
    fill = jnp.asarray(identity, x.dtype)
    shift = 1
    while shift < length:
        low, high = (-shift, shift) if reverse else (shift, -shift)
        shifted = lax.pad(x, fill, [(low, high, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
        x = combine(shifted, x)
        shift *= 2
    return x


def _scan_in_sequence(x: Array, combine: Combine, identity: float | np.generic, axis: int, reverse: bool) -> Array:
    rows = jnp.moveaxis(x, axis, 0)
    start = jnp.broadcast_to(jnp.asarray(identity, x.dtype), rows.shape[1:])

    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        total = combine(carry, row)
        return total, total

    return jnp.moveaxis(lax.scan(step, start, rows, reverse=reverse)[1], 0, axis)


@rules.decompose("cumprod")
@computed_in(np.float32)
def cumprod_by_doubling(x: Array, *, axis: int, reverse: bool) -> Array:
    """Cumulative products."""
    return scan_by_doubling(x, lax.mul, 1, axis, reverse)


@rules.decompose("cummax")
def cummax(x: Array, *, axis: int, reverse: bool) -> Array:
    """Cumulative maxima."""
    return scan_by_doubling(x, lax.max, lowest(x.dtype), axis, reverse)


@rules.decompose("cummin")
def cummin(x: Array, *, axis: int, reverse: bool) -> Array:
    """Cumulative minima."""
    return scan_by_doubling(x, lax.min, highest(x.dtype), axis, reverse)


@rules.decompose("cumlogsumexp")
@computed_in(np.float32)
def cumlogsumexp(x: Array, *, axis: int, reverse: bool) -> Array:
    """Cumulative logarithms of sums of exponentials."""
    return scan_by_doubling(x, jnp.logaddexp, -np.inf, axis, reverse)


rules.complex("cumprod", on_arrays(cumprod_by_doubling))
rules.complex("cummax", on_arrays(cummax))
rules.complex("cummin", on_arrays(cummin))
rules.complex("cumlogsumexp", on_arrays(cumlogsumexp))
