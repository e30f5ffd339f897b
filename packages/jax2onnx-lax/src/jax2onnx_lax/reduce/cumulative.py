"""Cumulative sums, products, extrema and log-sum-exp along an axis, in either direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax.complex.arrays import on_arrays
from jax2onnx_lax.reduce.monoids import highest, lowest
from jax2onnx_lax.reduce.ordering import is_float

__all__ = ["rules", "scan_by_doubling"]

rules = Rules()

Array = Any  # a JAX array, traced or not


@rules.lower("cumsum")
def cumsum(ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    dtype = np.dtype(ctx.dtype(x))
    wide = ctx.cast(x, _accumulator(dtype))
    total = ctx.op.CumSum(wide, ctx.constant(axis, dtype=np.int64), reverse=int(reverse))
    return ctx.cast(total, dtype)


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What XLA's CPU backend accumulates in; for integers a type with a kernel, equal modulo their range."""
    if is_float(dtype):
        return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    return np.dtype(np.int32 if dtype.itemsize < 4 or dtype == np.int32 else np.int64)


@rules.lower("cumprod")
def cumprod(ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    if ctx.opset < 26:
        ctx.decline("CumProd came with opset 26")
    if ctx.dtype(x) not in (np.float32, np.float64):
        ctx.decline("only its kernels for float32 and float64 are used")
    return ctx.op.CumProd(x, ctx.constant(axis, dtype=np.int64), reverse=int(reverse))


def scan_by_doubling(
    x: Array, combine: Callable[[Array, Array], Array], identity: Any, axis: int, reverse: bool
) -> Array:
    """All prefixes of an associative, commutative operation (Hillis and Steele, Data parallel algorithms, 1986).

    A static axis of length n takes log2(n) shifted combinations, a symbolic one a sequential scan.
    """
    length = x.shape[axis]
    if not isinstance(length, int):
        return _scan_in_sequence(x, combine, identity, axis, reverse)
    fill = jnp.asarray(identity, x.dtype)
    shift = 1
    while shift < length:
        low, high = (-shift, shift) if reverse else (shift, -shift)
        shifted = lax.pad(x, fill, [(low, high, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
        x = combine(shifted, x)
        shift *= 2
    return x


def _scan_in_sequence(x: Array, combine: Any, identity: Any, axis: int, reverse: bool) -> Array:
    rows = jnp.moveaxis(x, axis, 0)
    start = jnp.broadcast_to(jnp.asarray(identity, x.dtype), rows.shape[1:])

    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        total = combine(carry, row)
        return total, total

    return jnp.moveaxis(lax.scan(step, start, rows, reverse=reverse)[1], 0, axis)


@rules.decompose("cumprod")
def cumprod_by_doubling(x: Array, *, axis: int, reverse: bool) -> Array:
    return _through_wider(x, lax.mul, 1, axis, reverse)


@rules.decompose("cummax")
def cummax(x: Array, *, axis: int, reverse: bool) -> Array:
    return scan_by_doubling(x, lax.max, lowest(x.dtype), axis, reverse)


@rules.decompose("cummin")
def cummin(x: Array, *, axis: int, reverse: bool) -> Array:
    return scan_by_doubling(x, lax.min, highest(x.dtype), axis, reverse)


@rules.decompose("cumlogsumexp")
def cumlogsumexp(x: Array, *, axis: int, reverse: bool) -> Array:
    return _through_wider(x, jnp.logaddexp, -np.inf, axis, reverse)


def _through_wider(x: Array, combine: Any, identity: Any, axis: int, reverse: bool) -> Array:
    """Round half-precision floats once, at the end."""
    narrow = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4
    wide = x.astype(np.float32) if narrow else x
    return scan_by_doubling(wide, combine, identity, axis, reverse).astype(x.dtype)


rules.complex("cumprod", on_arrays(cumprod_by_doubling))
rules.complex("cummax", on_arrays(cummax))
rules.complex("cummin", on_arrays(cummin))
rules.complex("cumlogsumexp", on_arrays(cumlogsumexp))
