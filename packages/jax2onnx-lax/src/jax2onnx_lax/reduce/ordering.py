"""Keys on which ONNX's comparing operators agree with JAX's order.

ONNX leaves open where TopK, ArgMax and ArgMin put NaN. To JAX a NaN is greater than every number in a sort, and
wins both argmax and argmin.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from jax2onnx_core import Context, Value

from jax2onnx_lax.dtypes import Dtype, is_bool, is_float

__all__ = ["flip_sign", "keys", "replace_nan", "total_keys"]

_NEEDS_FLOAT64 = (np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16))
# Stand-ins of infinity and NaN in a wider type: beyond every finite value of the narrower one.
_STAND_INS = {np.dtype(np.float32): (1e30, 2e30), np.dtype(np.float64): (1e300, 2e300)}


def _wider(dtype: Dtype) -> Dtype:
    """A float type with room for several values beyond those of `dtype`, which is not float64."""
    return np.dtype(np.float64 if dtype in _NEEDS_FLOAT64 else np.float32)


def flip_sign(ctx: Context, x: Value) -> Value:
    """uint64, which few runtimes compare, as int64 of the same order."""
    return ctx.cast(ctx.op.BitwiseXor(x, ctx.constant(1 << 63, dtype=np.uint64)), np.int64)


def replace_nan(ctx: Context, x: Value, *, greatest: bool = True) -> Value:
    """Floats other than float64 in a wider type and in the same order, NaN as the greatest or the least value."""
    wide = ctx.cast(x, _wider(ctx.dtype(x)))
    infinity, nan = _STAND_INS[ctx.dtype(wide)]
    is_nan = ctx.op.IsNaN(wide)
    if greatest:
        return ctx.op.Where(is_nan, ctx.constant(nan, like=wide), ctx.op.Min(wide, ctx.constant(infinity, like=wide)))
    return ctx.op.Where(is_nan, ctx.constant(-nan, like=wide), ctx.op.Max(wide, ctx.constant(-infinity, like=wide)))


def _is_negative_zero(ctx: Context, x: Value) -> Value:
    """Whether `x` is -0.0, or a negative number whose reciprocal overflows (no value of a narrower type is one)."""
    return ctx.op.Equal(ctx.op.Reciprocal(x), ctx.constant(-np.inf, like=x))


def total_keys(ctx: Context, x: Value) -> list[Value]:
    """Like `keys`, in the order of `lax.top_k`: -0.0 is less than 0.0."""
    dtype = ctx.dtype(x)
    if dtype == np.float64:
        zero = ctx.op.Equal(x, ctx.constant(0, like=x))
        positive = ctx.op.Not(ctx.op.And(zero, _is_negative_zero(ctx, x)))
        value, nan = keys(ctx, x)
        return [value, nan, ctx.cast(positive, np.uint8)]
    if not is_float(dtype):
        return keys(ctx, x)
    wide = replace_nan(ctx, x)
    tiny = -1e-300 if ctx.dtype(wide) == np.float64 else -1e-30
    return [ctx.op.Where(_is_negative_zero(ctx, wide), ctx.constant(tiny, like=wide), wide)]


def keys(ctx: Context, x: Value) -> list[Value]:
    """Tensors, the major one first, whose lexicographic order is JAX's ascending order of `x`."""
    dtype = ctx.dtype(x)
    if dtype == np.float64:
        nan = ctx.op.IsNaN(x)
        return [ctx.op.Where(nan, ctx.constant(np.inf, like=x), x), ctx.cast(nan, np.uint8)]
    if is_float(dtype):
        return [replace_nan(ctx, x)]
    if is_bool(dtype):
        return [ctx.cast(x, np.uint8)]
    return [flip_sign(ctx, x) if dtype == np.uint64 else x]
