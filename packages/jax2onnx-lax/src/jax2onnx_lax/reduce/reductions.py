"""Reductions over axes: sums, products, extrema, logic, `lax.reduce`, argmax and argmin."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Jaxpr, Rules, Value
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.complex._arrays import on_arrays
from jax2onnx_lax.dtypes import is_bool, is_float
from jax2onnx_lax.monoids import MONOIDS, Monoid, combiner, from_identity, highest, lowest, recognise
from jax2onnx_lax.reduce._branches import branch
from jax2onnx_lax.reduce._folds import flatten_axes, fold_axes, fold_axis
from jax2onnx_lax.reduce._ordering import comparable, has_nan, nan_matters

__all__ = ["rules"]

rules = Rules()


def _reduce(ctx: Context, op_type: str, x: Value, axes: Sequence[int]) -> Value:
    """One reducing operator; declines where the target does not compute it exactly."""
    ctx.require(op_type, x)
    return ctx.op(op_type, x, ctx.ints(axes), keepdims=0, dims=ctx.avals_out[0].shape)


# -- sums and products ----------------------------------------------------------------------


@rules.lower("reduce_sum")
def reduce_sum(ctx: Context, x: Value, *, axes: Sequence[int], **_: object) -> Value:
    """The sum over `axes`."""
    return _accumulate(ctx, "ReduceSum", x, axes)


@rules.lower("reduce_prod")
def reduce_prod(ctx: Context, x: Value, *, axes: Sequence[int], **_: object) -> Value:
    """The product over `axes`."""
    return _accumulate(ctx, "ReduceProd", x, axes)


def _accumulate(ctx: Context, op_type: str, x: Value, axes: Sequence[int]) -> Value:
    """A sum or product; declines where the target's operator does not wrap integers around."""
    if not axes:
        return x
    dtype = ctx.dtype(x)
    if not is_float(dtype) and not ctx.guarantees(op_type, dtype, "wraps"):
        ctx.decline(f"{op_type} of {dtype} does not wrap around on {ctx.target.name}")
    return _reduce(ctx, op_type, x, axes)


@rules.decompose("reduce_sum")
def sum_by_product(x: Array, *, axes: Sequence[int], **_: object) -> Array:
    """A sum as `dot_general` with ones: integer products accumulate modulo the integer's range."""
    ones = lax.full(tuple(x.shape[axis] for axis in axes), 1, x.dtype)
    every = tuple(range(len(axes)))
    if len(axes) == 1:
        return lax.dot_general(ones, x, ((every, tuple(axes)), ((), ())), preferred_element_type=x.dtype)
    return lax.dot_general(x, ones, ((tuple(axes), every), ((), ())), preferred_element_type=x.dtype)


@rules.decompose("reduce_prod")
def product_by_pairs(x: Array, *, axes: Sequence[int], **_: object) -> Array:
    """A product as elementwise products of halves."""
    return fold_axes(x, axes, MONOIDS["mul"])


# -- extrema --------------------------------------------------------------------------------


@rules.lower("reduce_max")
def reduce_max(ctx: Context, x: Value, *, axes: Sequence[int], **_: object) -> Value:
    """The greatest element over `axes`; NaN where there is one."""
    return _extremum(ctx, "ReduceMax", x, axes, lowest(ctx.dtype(x)))


@rules.lower("reduce_min")
def reduce_min(ctx: Context, x: Value, *, axes: Sequence[int], **_: object) -> Value:
    """The least element over `axes`; NaN where there is one."""
    return _extremum(ctx, "ReduceMin", x, axes, highest(ctx.dtype(x)))


def _extremum(ctx: Context, op_type: str, x: Value, axes: Sequence[int], identity: np.generic) -> Value:
    """ReduceMax or ReduceMin; the identity where there is nothing to reduce."""
    if not axes:
        return x
    dims, dtype = ctx.avals_in[0].shape, ctx.dtype(x)
    if any(isinstance(dims[axis], int) and dims[axis] == 0 for axis in axes):
        return ctx.broadcast(ctx.constant(identity, dtype=dtype), ctx.avals_out[0].shape)
    if dtype == np.uint64:
        ctx.pass_on("uint64 is compared as int64 of the same order")
    if is_bool(dtype):  # as bytes, which runtimes reduce several times faster, and any opset
        return ctx.cast(_reduce(ctx, op_type, ctx.cast(x, np.uint8), axes), np.bool_)
    result = _reduce(ctx, op_type, x, axes)
    if is_float(dtype) and not ctx.guarantees(op_type, dtype, "nan"):
        return _propagate_nan(ctx, x, axes, result)
    return result


def _propagate_nan(ctx: Context, x: Value, axes: Sequence[int], result: Value) -> Value:
    """`result`, or NaN where `x` has one: the sum of magnitudes is NaN exactly there."""
    magnitude = ctx.op.ReduceSum(ctx.op.Abs(x), ctx.ints(axes), keepdims=0, dims=ctx.dims(result))
    return ctx.op.Where(ctx.op.IsNaN(magnitude), magnitude, result)


@rules.decompose("reduce_max")
def max_by_pairs(x: Array, *, axes: Sequence[int], **_: object) -> Array:
    """A maximum as elementwise maxima of halves."""
    return _extremum_by_pairs(x, axes, MONOIDS["max"])


@rules.decompose("reduce_min")
def min_by_pairs(x: Array, *, axes: Sequence[int], **_: object) -> Array:
    """A minimum as elementwise minima of halves."""
    return _extremum_by_pairs(x, axes, MONOIDS["min"])


def _extremum_by_pairs(x: Array, axes: Sequence[int], monoid: Monoid) -> Array:
    """Reduce by `monoid`; uint64, which few runtimes compare, as int64 of the same order."""
    if x.dtype != np.uint64:
        return fold_axes(x, axes, monoid)
    sign = np.uint64(1 << 63)
    return lax.convert_element_type(monoid.reduce(lax.convert_element_type(x ^ sign, np.int64), axes), np.uint64) ^ sign


# -- logic ----------------------------------------------------------------------------------


@rules.lower("reduce_or")
def reduce_or(ctx: Context, x: Value, *, axes: Sequence[int], **_: object) -> Value:
    """Whether any boolean over `axes` is true."""
    return _logic(ctx, "ReduceMax", x, axes, False)


@rules.lower("reduce_and")
def reduce_and(ctx: Context, x: Value, *, axes: Sequence[int], **_: object) -> Value:
    """Whether all booleans over `axes` are true."""
    return _logic(ctx, "ReduceMin", x, axes, True)


def _logic(ctx: Context, op_type: str, x: Value, axes: Sequence[int], identity: bool) -> Value:
    if axes and not is_bool(ctx.dtype(x)):
        ctx.pass_on("bits are combined pair by pair")
    return _extremum(ctx, op_type, x, axes, np.bool_(identity))


@rules.decompose("reduce_and")
def and_by_pairs(x: Array, *, axes: Sequence[int], **_: object) -> Array:
    """Bitwise and of integers."""
    return fold_axes(x, axes, MONOIDS["and"])


@rules.decompose("reduce_or")
def or_by_pairs(x: Array, *, axes: Sequence[int], **_: object) -> Array:
    """Bitwise or of integers."""
    return fold_axes(x, axes, MONOIDS["or"])


@rules.decompose("reduce_xor")
def reduce_xor(x: Array, *, axes: Sequence[int], **_: object) -> Array:
    """Bitwise exclusive or; of booleans, whether an odd number is true."""
    if x.dtype == np.bool_:
        return lax.reduce_sum(lax.convert_element_type(x, np.int32), axes) % 2 == 1
    return fold_axes(x, axes, MONOIDS["xor"])


# -- any computation ------------------------------------------------------------------------


@rules.lower("reduce")
def reduce(ctx: Context, *operands: Value, jaxpr: Jaxpr, dimensions: Sequence[int], **_: object) -> Value:
    """`lax.reduce` by a known operation from its identity."""
    monoid = from_identity(ctx, jaxpr, operands[-1])
    return ctx.jax(monoid.reduce, operands[0], axes=tuple(dimensions))


@rules.decompose("reduce")
def reduce_by_computation(*operands: Array, jaxpr: Jaxpr, dimensions: Sequence[int], **_: object) -> Sequence[Array]:
    """`lax.reduce` with any associative computation on any number of operands; over no axes XLA leaves these as they are."""
    values, initial = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    if not dimensions:
        return values
    monoid = recognise(jaxpr)
    if monoid is not None:
        reduced = monoid.reduce(values[0], tuple(dimensions))
        return [monoid.combine(jnp.broadcast_to(initial[0], reduced.shape), reduced)]
    rows = [flatten_axes(x, dimensions) for x in values]
    return fold_axis(rows, initial, combiner(jaxpr), neutral=False)


# -- the place of the extremum --------------------------------------------------------------


@rules.lower("argmax")
def argmax(ctx: Context, x: Value, *, axes: Sequence[int], index_dtype: DtypeLike) -> Value:
    """The index of the first NaN along an axis, else of the first greatest element."""
    return ctx.cast(_arg_extremum(ctx, "ArgMax", x, axes[0]), index_dtype)


@rules.lower("argmin")
def argmin(ctx: Context, x: Value, *, axes: Sequence[int], index_dtype: DtypeLike) -> Value:
    """The index of the first NaN along an axis, else of the first least element."""
    return ctx.cast(_arg_extremum(ctx, "ArgMin", x, axes[0]), index_dtype)


def _arg_extremum(ctx: Context, op_type: str, x: Value, axis: int) -> Value:
    x = comparable(ctx, op_type, x)
    condition = has_nan(ctx, x) if nan_matters(ctx, op_type, x, axis) else None
    (index,) = branch(
        ctx, condition, rare=lambda c: [_arg_nan_or_extremum(c, op_type, x, axis)],
        usual=lambda c: [_arg_number(c, op_type, x, axis)],
    )  # fmt: skip
    return index


def _arg_number(ctx: Context, op_type: str, x: Value, axis: int) -> Value:
    return ctx.op(op_type, x, axis=axis, keepdims=0, dims=ctx.avals_out[0].shape)


def _arg_nan_or_extremum(ctx: Context, op_type: str, x: Value, axis: int) -> Value:
    """The index of the first NaN of a row that has one."""
    nan = ctx.cast(ctx.op.IsNaN(x), np.int32)
    has_one = ctx.op.ReduceMax(nan, ctx.ints([axis]), keepdims=0, dims=ctx.avals_out[0].shape)
    first = _arg_number(ctx, "ArgMax", nan, axis)
    return ctx.op.Where(ctx.cast(has_one, np.bool_), first, _arg_number(ctx, op_type, x, axis))


# -- complex --------------------------------------------------------------------------------

rules.complex("reduce_prod", on_arrays(product_by_pairs))
rules.complex("reduce_max", on_arrays(max_by_pairs))
rules.complex("reduce_min", on_arrays(min_by_pairs))
rules.complex("reduce", on_arrays(reduce_by_computation))
