"""`sort`, `top_k` and `approx_top_k` by TopK, whose order among equals is that of their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax
from jax2onnx_core import Complex, Rules

from jax2onnx_lax.reduce.ordering import keys, total_keys

__all__ = ["rules"]

rules = Rules()

Array = Any  # a JAX array, traced or not


def _top(ctx: Any, x: Any, count: Any, axis: int, *, largest: bool) -> tuple[Any, Any]:
    """TopK's values and int64 places."""
    if not ctx.supports("TopK", ctx.dtype(x)):
        x = ctx.cast(x, np.int64)
    dims = ctx.dims(x)
    values, places = ctx.op("TopK", x, ctx.shape((count,)), axis=axis, largest=int(largest), outputs=2)
    dims = (*dims[:axis], count, *dims[axis + 1 :])
    return ctx.with_dims(values, dims), ctx.with_dims(places, dims)


def _take(ctx: Any, x: Any, places: Any, axis: int) -> Any:
    return ctx.op.GatherElements(x, places, axis=axis, dims=ctx.dims(places))


@rules.lower("sort")
def sort(ctx: Any, *operands: Any, dimension: int, num_keys: int, **_: Any) -> Any:
    """Stable sorts by one key after another, the last one first (the radix principle)."""
    length = ctx.avals_in[0].shape[dimension]
    if isinstance(length, int) and length <= 1:
        return operands
    dtype = ctx.dtype(operands[0])
    if len(operands) == 1 and dtype.kind in "iu" and dtype != np.uint64 and ctx.supports("TopK", dtype):
        return _top(ctx, operands[0], length, dimension, largest=False)[0]
    minor_first = [key for operand in operands[:num_keys] for key in keys(ctx, operand)][::-1]
    order = None
    for key in minor_first:
        arranged = key if order is None else _take(ctx, key, order, dimension)
        places = _top(ctx, arranged, length, dimension, largest=False)[1]
        order = places if order is None else _take(ctx, order, places, dimension)
    return [_take(ctx, operand, order, dimension) for operand in operands]


@rules.complex("sort")
def sort_complex(*operands: Any, dimension: int, num_keys: int, is_stable: bool) -> Sequence[Any]:
    """Complex numbers are in lexicographic order: a complex key is two keys."""
    parts: list[Array] = []
    for operand in operands:
        parts += operand if isinstance(operand, Complex) else [operand]
    count = sum(2 if isinstance(operand, Complex) else 1 for operand in operands[:num_keys])
    rest = iter(lax.sort(parts, dimension=dimension, num_keys=count, is_stable=is_stable))
    return [Complex(next(rest), next(rest)) if isinstance(x, Complex) else next(rest) for x in operands]


@rules.lower("top_k")
def top_k(ctx: Any, x: Any, *, k: Any, axis: int = -1, **_: Any) -> Any:
    axis %= len(ctx.avals_in[0].shape)
    dtype = ctx.dtype(x)
    index_dtype = np.dtype(ctx.avals_out[1].dtype)
    if dtype.kind in "iu" and dtype != np.uint64 and ctx.supports("TopK", dtype):
        values, places = _top(ctx, x, k, axis, largest=True)
        return values, ctx.cast(places, index_dtype)
    if dtype == np.float64:
        places = _top_float64(ctx, x, k, axis)
    else:
        places = _top(ctx, total_keys(ctx, x)[0], k, axis, largest=True)[1]
    return _take(ctx, x, places, axis), ctx.cast(places, index_dtype)


def _top_float64(ctx: Any, x: Any, k: Any, axis: int) -> Any:
    """No wider type has room for NaN and -0.0: stable sorts by the sign of zeros, value and NaN, then the first k."""
    value, is_nan, positive = total_keys(ctx, x)
    length = ctx.avals_in[0].shape[axis]
    order = _top(ctx, positive, length, axis, largest=True)[1]
    for key, count in ((value, length), (is_nan, k)):
        places = _top(ctx, _take(ctx, key, order, axis), count, axis, largest=True)[1]
        order = _take(ctx, order, places, axis)
    return order


@rules.lower("approx_top_k")
def approx_top_k(ctx: Any, x: Any, *, reduction_dimension: int, is_max_k: bool, **_: Any) -> Any:
    """Exact, as on XLA's CPU backend; without aggregation there are more results than k."""
    values, places = ctx.avals_out
    axis = reduction_dimension % len(values.shape)
    top, order = _top(ctx, x, values.shape[axis], axis, largest=is_max_k)
    return ctx.cast(top, np.dtype(values.dtype)), ctx.cast(order, np.dtype(places.dtype))
