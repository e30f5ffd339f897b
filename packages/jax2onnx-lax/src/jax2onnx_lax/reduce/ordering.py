"""Keys on which ONNX's comparing operators agree with JAX's order.

ONNX leaves NaN open and ONNX Runtime's TopK, ArgMax and ArgMin give wrong results where one occurs;
to JAX a NaN is greater than everything in a sort and wins both argmax and argmin.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["flip_sign", "is_float", "keys", "replace_nan", "total_keys"]

# A wider type has room for two values beyond the infinities of the narrower one.
_WIDER = {np.dtype(np.float32): np.float64, np.dtype(ml_dtypes.bfloat16): np.float64}
_INFINITY = 1e30, 1e300
_NAN = 2e30, 2e300


def is_float(dtype: Any) -> bool:
    """Whether `dtype` is a real floating point type, ml_dtypes' included."""
    return np.dtype(dtype).kind == "f" or (np.dtype(dtype).kind == "V" and "float" in np.dtype(dtype).name)


def flip_sign(ctx: Any, x: Any) -> Any:
    """uint64 → int64 of the same order, for kernels that lack uint64."""
    return ctx.cast(ctx.op.BitwiseXor(x, ctx.constant(1 << 63, dtype=np.uint64)), np.int64)


def replace_nan(ctx: Any, x: Any, *, greatest: bool = True) -> Any:
    """A float tensor, not of float64, in a wider type, in the same order, its NaN as the greatest or least value."""
    wider = _WIDER.get(np.dtype(ctx.dtype(x)), np.float32)
    infinity, nan = (bound[wider is np.float64] for bound in (_INFINITY, _NAN))
    wide = ctx.cast(x, wider)
    if greatest:
        return ctx.op.Where(ctx.op.IsNaN(wide), ctx.constant(nan, dtype=wider),
                            ctx.op.Min(wide, ctx.constant(infinity, dtype=wider)))  # fmt: skip
    return ctx.op.Where(ctx.op.IsNaN(wide), ctx.constant(-nan, dtype=wider),
                        ctx.op.Max(wide, ctx.constant(-infinity, dtype=wider)))  # fmt: skip


def negative_zero(ctx: Any, x: Any) -> Any:
    """Where `x` is -0.0, or too near to it for its reciprocal (which no value of a narrower type is)."""
    return ctx.op.Equal(ctx.op.Reciprocal(x), ctx.constant(-np.inf, like=x))


def total_keys(ctx: Any, x: Any) -> list[Any]:
    """Like `keys`, in the order of `lax.top_k`: -0.0 is less than 0.0."""
    dtype = np.dtype(ctx.dtype(x))
    if dtype == np.float64:
        zero = ctx.op.Equal(x, ctx.constant(0, like=x))
        positive = ctx.op.Not(ctx.op.And(zero, negative_zero(ctx, x)))
        value, nan = keys(ctx, x)
        return [value, nan, ctx.cast(positive, np.uint8)]
    if not is_float(dtype):
        return keys(ctx, x)
    wide = replace_nan(ctx, x)
    tiny = -1e-300 if ctx.dtype(wide) == np.float64 else -1e-30
    return [ctx.op.Where(negative_zero(ctx, wide), ctx.constant(tiny, like=wide), wide)]


def keys(ctx: Any, x: Any) -> list[Any]:
    """Tensors, the major one first, whose lexicographic order is JAX's ascending order of `x`."""
    dtype = np.dtype(ctx.dtype(x))
    if dtype == np.bool_:
        return [ctx.cast(x, np.uint8)]
    if dtype == np.uint64:
        return [flip_sign(ctx, x)]
    if dtype == np.float64:
        nan = ctx.op.IsNaN(x)
        return [ctx.op.Where(nan, ctx.constant(np.inf, like=x), x), ctx.cast(nan, np.uint8)]
    return [replace_nan(ctx, x)] if is_float(dtype) else [x]
