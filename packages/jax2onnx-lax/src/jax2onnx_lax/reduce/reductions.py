"""Reductions over axes: sums, products, extrema, logic, `lax.reduce`, argmax and argmin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax._compat import open_jaxpr
from jax2onnx_lax.complex.arrays import on_arrays
from jax2onnx_lax.indexing.index_analysis import definitely_le
from jax2onnx_lax.reduce.monoids import MONOIDS, Monoid, combiner, from_identity, highest, lowest, recognise
from jax2onnx_lax.reduce.ordering import flip_sign, is_float, replace_nan

__all__ = ["fold_axis", "rules"]

rules = Rules()

Array = Any  # a JAX array, traced or not


def _nothing_to_reduce(ctx: Any, axes: Sequence[int], identity: Any) -> Any:
    """A tensor full of the identity where a reduced axis has length 0, else None."""
    if not any(isinstance(ctx.avals_in[0].shape[axis], int) and ctx.avals_in[0].shape[axis] == 0 for axis in axes):
        return None
    aval = ctx.avals_out[0]
    return ctx.broadcast(ctx.constant(identity, dtype=np.dtype(aval.dtype)), aval.shape)


def _reduce(ctx: Any, op_type: str, x: Any, axes: Sequence[int]) -> Any:
    if not ctx.supports(op_type, ctx.dtype(x)):
        ctx.decline(f"{ctx.target} has no exact {op_type} of {ctx.dtype(x)}")
    return ctx.op(op_type, x, ctx.ints(axes), keepdims=0, dims=tuple(ctx.avals_out[0].shape))


# -- sums and products ----------------------------------------------------------------------


@rules.lower("reduce_sum")
def reduce_sum(ctx: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    if not axes:
        return x
    if not is_float(ctx.dtype(x)):
        # ONNX Runtime adds integers up in floating point and saturates the result.
        ctx.decline("integers are summed by a product with ones, which wraps around")
    return _reduce(ctx, "ReduceSum", x, axes)


@rules.decompose("reduce_sum")
def sum_by_product(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    """A sum as `dot_general` with ones: integer products accumulate modulo the integer's range."""
    ones = lax.full(tuple(x.shape[axis] for axis in axes), 1, x.dtype)
    every = tuple(range(len(axes)))
    if len(axes) == 1:
        return lax.dot_general(ones, x, ((every, tuple(axes)), ((), ())), preferred_element_type=x.dtype)
    return lax.dot_general(x, ones, ((tuple(axes), every), ((), ())), preferred_element_type=x.dtype)


@rules.lower("reduce_prod")
def reduce_prod(ctx: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    if not axes:
        return x
    if not is_float(ctx.dtype(x)):
        ctx.decline("integer products of ONNX Runtime go through floating point")
    return _reduce(ctx, "ReduceProd", x, axes)


# -- extrema --------------------------------------------------------------------------------


@rules.lower("reduce_max")
def reduce_max(ctx: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    return _extremum(ctx, "ReduceMax", x, axes, lowest(ctx.dtype(x)))


@rules.lower("reduce_min")
def reduce_min(ctx: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    return _extremum(ctx, "ReduceMin", x, axes, highest(ctx.dtype(x)))


def _extremum(ctx: Any, op_type: str, x: Any, axes: Sequence[int], identity: Any) -> Any:
    if not axes:
        return x
    empty = _nothing_to_reduce(ctx, axes, identity)
    if empty is not None:
        return empty
    if ctx.dtype(x) == np.uint64:
        ctx.decline("no kernel compares uint64; int64 of flipped sign has the same order")
    if ctx.dtype(x) == np.bool_:
        return _boolean_extremum(ctx, op_type, x, axes)
    result = _reduce(ctx, op_type, x, axes)
    return _propagate_nan(ctx, x, axes, result) if is_float(ctx.dtype(x)) else result


def _propagate_nan(ctx: Any, x: Any, axes: Sequence[int], result: Any) -> Any:
    """ONNX Runtime's extrema skip NaN. The sum of magnitudes is NaN exactly where an operand is."""
    magnitude = ctx.op.ReduceSum(ctx.op.Abs(x), ctx.ints(axes), keepdims=0, dims=ctx.dims(result))
    return ctx.op.Where(ctx.op.IsNaN(magnitude), magnitude, result)


def _boolean_extremum(ctx: Any, op_type: str, x: Any, axes: Sequence[int]) -> Any:
    never_empty = all(definitely_le(1, ctx.avals_in[0].shape[axis]) for axis in axes)
    if ctx.opset >= 20 and never_empty:  # ONNX Runtime refuses to reduce no booleans
        return ctx.op(op_type, x, ctx.ints(axes), keepdims=0, dims=tuple(ctx.avals_out[0].shape))
    return ctx.cast(_reduce(ctx, op_type, ctx.cast(x, np.uint8), axes), np.bool_)


def _flipped(x: Array) -> Array:
    return lax.convert_element_type(x ^ x.dtype.type(1 << 63), np.int64)


def _unflipped(x: Array) -> Array:
    return lax.convert_element_type(x, np.uint64) ^ np.uint64(1 << 63)


@rules.decompose("reduce_max")
def _max(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    if x.dtype == np.uint64:
        return _unflipped(lax.reduce_max(_flipped(x), axes))
    return fold_axes(x, axes, MONOIDS["max"])


@rules.decompose("reduce_min")
def _min(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    if x.dtype == np.uint64:
        return _unflipped(lax.reduce_min(_flipped(x), axes))
    return fold_axes(x, axes, MONOIDS["min"])


# -- logic ----------------------------------------------------------------------------------


@rules.lower("reduce_or")
def reduce_or(ctx: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    return _logic(ctx, "ReduceMax", x, axes, False)


@rules.lower("reduce_and")
def reduce_and(ctx: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    return _logic(ctx, "ReduceMin", x, axes, True)


def _logic(ctx: Any, op_type: str, x: Any, axes: Sequence[int], identity: bool) -> Any:
    if not axes:
        return x
    if ctx.dtype(x) != np.bool_:
        ctx.decline("bits are combined pair by pair")
    empty = _nothing_to_reduce(ctx, axes, identity)
    return _boolean_extremum(ctx, op_type, x, axes) if empty is None else empty


@rules.decompose("reduce_xor")
def reduce_xor(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    if x.dtype == np.bool_:
        return lax.reduce_sum(lax.convert_element_type(x, np.int32), axes) % 2 == 1
    return fold_axes(x, axes, MONOIDS["xor"])


# -- by pairs -------------------------------------------------------------------------------


def fold_axes(x: Array, axes: Sequence[int], monoid: Monoid) -> Array:
    """Reduce `axes` with a monoid by combining halves, or step by step along a symbolic axis."""
    return fold_axis(
        [flatten_axes(x, axes)], [monoid.identity(x.dtype)], lambda a, b: [monoid.combine(a, b)], neutral=True
    )[0]


def flatten_axes(x: Array, axes: Sequence[int]) -> Array:
    """`x` with `axes` in front, as one axis."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    length = math.prod(x.shape[axis] for axis in axes)
    return lax.reshape(lax.transpose(x, [*axes, *rest]), (length, *(x.shape[axis] for axis in rest)))


def fold_axis(xs: Sequence[Array], initial: Sequence[Any], combine: Any, *, neutral: bool) -> Sequence[Array]:
    """Combine the rows of `xs` with one another and, unless it is neutral, with the initial value.

    `combine(*left, *right)` must be associative; the order of the rows is kept.
    """
    length = xs[0].shape[0]
    start = [jnp.broadcast_to(value, x.shape[1:]).astype(x.dtype) for value, x in zip(initial, xs, strict=True)]
    if not isinstance(length, int):
        total: Sequence[Array] = lax.scan(lambda carry, row: (list(combine(*carry, *row)), None), start, list(xs))[0]
        return total
    if length == 0:
        return start
    while length > 1:
        half = length // 2
        left = [lax.slice_in_dim(x, 0, 2 * half, 2) for x in xs]
        right = [lax.slice_in_dim(x, 1, 2 * half, 2) for x in xs]
        merged = combine(*left, *right)
        if length % 2:
            merged = [lax.concatenate([m, x[length - 1 :]], 0) for m, x in zip(merged, xs, strict=True)]
        xs, length = merged, half + length % 2
    result = [lax.squeeze(x, [0]) for x in xs]
    return result if neutral else combine(*start, *result)


@rules.decompose("reduce_prod")
def product_by_pairs(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    return fold_axes(x, axes, MONOIDS["mul"])


@rules.decompose("reduce_and")
def and_by_pairs(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    return fold_axes(x, axes, MONOIDS["and"])


@rules.decompose("reduce_or")
def or_by_pairs(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    return fold_axes(x, axes, MONOIDS["or"])


# -- any computation ------------------------------------------------------------------------


@rules.lower("reduce")
def reduce(ctx: Any, *operands: Any, jaxpr: Any, dimensions: Sequence[int], **_: Any) -> Any:
    monoid = from_identity(ctx, jaxpr, (), operands[-1])
    return ctx.jax(monoid.reduce, operands[0], axes=tuple(dimensions))


@rules.decompose("reduce")
def reduce_by_computation(*operands: Array, jaxpr: Any, dimensions: Sequence[int], **_: Any) -> Sequence[Array]:
    """`lax.reduce` with any associative computation on any number of operands."""
    values, initial = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    monoid = recognise(open_jaxpr(jaxpr)[0])
    if monoid is not None:
        reduced = monoid.reduce(values[0], tuple(dimensions))
        return [monoid.combine(jnp.broadcast_to(initial[0], reduced.shape), reduced)]
    rows = [flatten_axes(x, dimensions) for x in values]
    return fold_axis(rows, initial, combiner(jaxpr, ()), neutral=False)


# -- the place of the extremum --------------------------------------------------------------


@rules.lower("argmax")
def argmax(ctx: Any, x: Any, *, axes: Sequence[int], index_dtype: Any) -> Any:
    return ctx.cast(_arg_extremum(ctx, "ArgMax", x, axes[0]), index_dtype)


@rules.lower("argmin")
def argmin(ctx: Any, x: Any, *, axes: Sequence[int], index_dtype: Any) -> Any:
    return ctx.cast(_arg_extremum(ctx, "ArgMin", x, axes[0]), index_dtype)


def _arg_extremum(ctx: Any, op_type: str, x: Any, axis: int) -> Any:
    dtype = np.dtype(ctx.dtype(x))
    if dtype == np.bool_:
        x = ctx.cast(x, np.uint8)
    elif dtype == np.uint64:
        x = flip_sign(ctx, x)
    elif dtype == np.float64:
        return _arg_extremum_f64(ctx, op_type, x, axis)
    elif is_float(dtype):
        x = replace_nan(ctx, x, greatest=op_type == "ArgMax")
    return ctx.op(op_type, x, axis=axis, keepdims=0, dims=tuple(ctx.avals_out[0].shape))


def _arg_extremum_f64(ctx: Any, op_type: str, x: Any, axis: int) -> Any:
    """Where a row has NaN, the place of the first one; there is no wider type to put them in order."""
    dims = tuple(ctx.avals_out[0].shape)
    nan = ctx.cast(ctx.op.IsNaN(x), np.int32)
    has_nan = ctx.cast(ctx.op.ReduceMax(nan, ctx.ints([axis]), keepdims=0, dims=dims), np.bool_)
    first_nan = ctx.op.ArgMax(nan, axis=axis, keepdims=0, dims=dims)
    return ctx.op.Where(has_nan, first_nan, ctx.op(op_type, x, axis=axis, keepdims=0, dims=dims))


# -- complex --------------------------------------------------------------------------------

rules.complex("reduce_prod", on_arrays(product_by_pairs))
rules.complex("reduce_max", on_arrays(_max))
rules.complex("reduce_min", on_arrays(_min))
rules.complex("reduce", on_arrays(reduce_by_computation))
