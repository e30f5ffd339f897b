"""`sort`, `top_k` and `approx_top_k` by TopK, which leaves equal elements in the order of their indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax import Array, lax
from jax2onnx_core import Complex, Context, Dim, Rules, Value

from jax2onnx_lax.dtypes import Dtype, is_float, is_integer
from jax2onnx_lax.reduce.ordering import keys, total_keys

__all__ = ["rules"]

rules = Rules()


def _top(ctx: Context, x: Value, count: Dim, axis: int, *, largest: bool) -> tuple[Value, Value]:
    """The values and the int64 indices of TopK; types that it does not take are widened."""
    if not ctx.supports("TopK", ctx.dtype(x)):
        x = ctx.cast(x, np.float32 if is_float(ctx.dtype(x)) else np.int64)
    dims = ctx.known_dims(x)
    dims = (*dims[:axis], count, *dims[axis + 1 :])
    values, indices = ctx.op.several("TopK", x, ctx.shape((count,)), axis=axis, largest=int(largest), outputs=2)
    return ctx.with_dims(values, dims), ctx.with_dims(indices, dims)


def _take(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    return ctx.op.GatherElements(x, indices, axis=axis, dims=ctx.dims(indices))


def _is_ordered_by_topk(ctx: Context, dtype: Dtype) -> bool:
    """Whether TopK orders the values themselves as JAX does; few runtimes compare uint64."""
    return is_integer(dtype) and dtype != np.uint64 and ctx.supports("TopK", dtype)


@rules.lower("sort")
def sort(ctx: Context, *operands: Value, dimension: int, num_keys: int, **_: object) -> Sequence[Value]:
    """Stable sorts by one key after another, the last one first (the radix principle)."""
    length = ctx.avals_in[0].shape[dimension]
    if isinstance(length, int) and length <= 1:
        return operands
    if len(operands) == 1 and _is_ordered_by_topk(ctx, ctx.dtype(operands[0])):
        return _top(ctx, operands[0], length, dimension, largest=False)[:1]
    minor_first = [key for operand in operands[:num_keys] for key in keys(ctx, operand)][::-1]
    order = None
    for key in minor_first:
        arranged = key if order is None else _take(ctx, key, order, dimension)
        indices = _top(ctx, arranged, length, dimension, largest=False)[1]
        order = indices if order is None else _take(ctx, order, indices, dimension)
    assert order is not None, "there is at least one key"
    return [_take(ctx, operand, order, dimension) for operand in operands]


@rules.complex("sort")
def sort_complex(
    *operands: Complex | Array, dimension: int, num_keys: int, is_stable: bool
) -> Sequence[Complex | Array]:
    """Complex numbers are in lexicographic order: a complex key is two keys."""
    parts: list[Array] = []
    for operand in operands:
        parts += operand if isinstance(operand, Complex) else [operand]
    count = sum(2 if isinstance(operand, Complex) else 1 for operand in operands[:num_keys])
    rest = iter(lax.sort(parts, dimension=dimension, num_keys=count, is_stable=is_stable))
    return [Complex(next(rest), next(rest)) if isinstance(x, Complex) else next(rest) for x in operands]


@rules.lower("top_k")
def top_k(ctx: Context, x: Value, *, k: Dim, axis: int = -1, **_: object) -> Sequence[Value]:
    """The `k` greatest elements along an axis in descending order, NaN first, and their indices."""
    axis %= len(ctx.avals_in[0].shape)
    dtype, index_dtype = ctx.dtype(x), ctx.avals_out[1].dtype
    if _is_ordered_by_topk(ctx, dtype):
        values, indices = _top(ctx, x, k, axis, largest=True)
        return values, ctx.cast(indices, index_dtype)
    if dtype == np.float64:
        indices = _top_float64(ctx, x, k, axis)
    else:
        indices = _top(ctx, total_keys(ctx, x)[0], k, axis, largest=True)[1]
    return _take(ctx, x, indices, axis), ctx.cast(indices, index_dtype)


def _top_float64(ctx: Context, x: Value, k: Dim, axis: int) -> Value:
    """Indices by stable sorts by the sign of zeros, value and NaN, as no wider type has room for NaN and -0.0."""
    value, is_nan, positive = total_keys(ctx, x)
    length = ctx.avals_in[0].shape[axis]
    order = _top(ctx, positive, length, axis, largest=True)[1]
    for key, count in ((value, length), (is_nan, k)):
        indices = _top(ctx, _take(ctx, key, order, axis), count, axis, largest=True)[1]
        order = _take(ctx, order, indices, axis)
    return order


@rules.lower("approx_top_k")
def approx_top_k(ctx: Context, x: Value, *, reduction_dimension: int, is_max_k: bool, **_: object) -> Sequence[Value]:
    """Exact, as on XLA's CPU backend; without aggregation there are more results than k."""
    values, indices = ctx.avals_out
    axis = reduction_dimension % len(values.shape)
    top, order = _top(ctx, x, values.shape[axis], axis, largest=is_max_k)
    return ctx.cast(top, values.dtype), ctx.cast(order, indices.dtype)
