"""JAX's order of numbers, for TopK, ArgMax and ArgMin: ONNX leaves open where these put NaN.

Tensors without NaN, the usual ones, are compared as they are; others by keys. Which they are is found at run time.
"""

from __future__ import annotations

import numpy as np
from jax.lax import GatherScatterMode
from jax2onnx_core import Context, Value
from jax2onnx_core.lowering.definitions import Definition
from jax2onnx_graph.assumptions import Assumption

from jax2onnx_lax.dtypes import is_bool, is_float

__all__ = [
    "comparable",
    "has_nan",
    "has_negative_zero",
    "is_softmax",
    "nan_last",
    "nan_matters",
    "total_order",
]

# Primitives whose result holds elements of their first operand, perhaps converted, and nothing else.
_COPIES = frozenset({
    "broadcast_in_dim", "convert_element_type", "copy", "dynamic_slice", "reshape", "rev", "slice", "split", "squeeze", "transpose",
})  # fmt: skip


def flip_sign(ctx: Context, x: Value) -> Value:
    """uint64, which few runtimes compare, as int64 of the same order."""
    return ctx.cast(ctx.op.BitwiseXor(x, ctx.constant(1 << 63, dtype=np.uint64)), np.int64)


def comparable(ctx: Context, op_type: str, x: Value) -> Value:
    """Convert an array to a dtype that an operator compares, in which its elements have the same order.

    Args:
      ctx: the context of the rule.
      op_type: "TopK", "ArgMax" or "ArgMin".
      x: the array.
    """
    dtype = ctx.dtype(x)
    if is_bool(dtype):
        return ctx.cast(x, np.uint8)
    if dtype == np.uint64:
        return flip_sign(ctx, x)
    if ctx.supports(op_type, dtype):
        return x
    wide = np.dtype(np.float32 if is_float(dtype) else np.int64)
    return ctx.define(ctx.cast(x, wide), "convert_element_type", x, new_dtype=wide)


_SOFTMAX = ("jax.nn.softmax", "jax.nn.log_softmax")

# -- NaN ------------------------------------------------------------------------------------


def has_nan(ctx: Context, *xs: Value) -> Value | None:
    """Whether any element of any tensor is NaN, a bool scalar; None where none can be, or none is by the user's promise.

    A sum of magnitudes is NaN exactly then: an infinite one, or one that overflows, is infinite.
    """
    if ctx.assumes(Assumption.FINITE):
        return None
    condition = None
    for x in xs:
        if _may_have_nan(ctx, x):
            found = ctx.op.IsNaN(ctx.op.ReduceL1(x, keepdims=0, dims=()))
            condition = found if condition is None else ctx.op.Or(condition, found)
    return condition


def _may_have_nan(ctx: Context, x: Value) -> bool:
    """False for integers, for constants without NaN, and for copies and conversions of such."""
    if not is_float(ctx.dtype(x)):
        return False
    known, definition = ctx.known(x), ctx.definition(x)
    if known is not None:
        return bool(np.isnan(known.astype(np.float64)).any())
    is_copy = definition is not None and (definition.primitive in _COPIES or _is_clipped_gather(definition))
    return definition is None or not is_copy or _may_have_nan(ctx, definition.operands[0])


def nan_matters(ctx: Context, op_type: str, x: Value, axis: int) -> bool:
    """Whether a NaN in `x` may be put elsewhere by TopK, ArgMax or ArgMin along an axis than by JAX.

    The kernel may keep NaN, or take those of a row that has nothing else for equal: a softmax is NaN nowhere or everywhere along its axis.
    """
    if ctx.guarantees(op_type, ctx.dtype(x), "nan"):
        return False
    return not (ctx.guarantees(op_type, ctx.dtype(x), "nan_rows") and is_softmax(ctx, x, axis, *_SOFTMAX))


def is_softmax(ctx: Context, x: Value, axis: int, *names: str) -> bool:
    """Whether `x` is a softmax along `axis`, by one of these operations, perhaps converted or viewed with the same rows."""
    definition, rank = ctx.definition(x), len(ctx.known_dims(x))
    while definition is not None and definition.primitive not in names:
        operand = definition.operands[0] if definition.operands else None
        if operand is None or not _keeps_rows(definition, axis == rank - 1):
            return False
        x, definition = operand, ctx.definition(operand)
        axis, rank = axis - rank + len(ctx.known_dims(x)), len(ctx.known_dims(x))
    return definition is not None and axis - rank == definition.params["axis"]


def _keeps_rows(definition: Definition, is_last: bool) -> bool:
    """Whether each row of the result, along the same axis from the end, is of one row of the operand."""
    if definition.primitive in ("convert_element_type", "copy"):
        return True
    before, after = definition.avals_in[0].shape, definition.aval.shape
    return definition.primitive == "reshape" and is_last and bool(before and after) and before[-1] == after[-1]


def _is_clipped_gather(definition: Definition) -> bool:
    return definition.primitive == "gather" and definition.params["mode"] != GatherScatterMode.FILL_OR_DROP


def nan_last(ctx: Context, x: Value) -> list[Value]:
    """Tensors, the major one first, whose lexicographic order is that of `x`, with NaN greater than every number."""
    if not is_float(ctx.dtype(x)):
        return [x]
    nan = ctx.op.IsNaN(x)
    return [ctx.op.Where(nan, ctx.constant(np.inf, like=x), x), ctx.cast(nan, np.uint8)]


# -- the order of lax.top_k -----------------------------------------------------------------


def has_negative_zero(ctx: Context, x: Value) -> Value:
    """Whether any of the floats is -0.0 (or a negative number whose reciprocal overflows), a bool scalar."""
    least = ctx.op.ReduceMin(ctx.op.Reciprocal(x), keepdims=0, dims=())
    return ctx.op.Equal(least, ctx.constant(-np.inf, like=x))


def total_order(ctx: Context, x: Value) -> list[Value]:
    """Tensors, the major one first, whose lexicographic order is that of the floats `x` in `lax.top_k`.

    -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN. Before opset 26 no operator shows the sign of a NaN: it is
    taken to be negative in a negation, else positive, so that the orders of `x` and of `-x` are opposite.
    """
    if ctx.opset >= 26 and ctx.supports("BitCast", ctx.dtype(x)):
        return [comparable(ctx, "TopK", _ordered_bits(ctx, x))]
    definition = ctx.definition(x)
    nan_is_greatest = definition is None or definition.primitive != "neg"
    x = comparable(ctx, "TopK", x)
    nan, zero = ctx.op.IsNaN(x), ctx.op.Equal(x, ctx.constant(0, like=x))
    negative_zero = ctx.op.And(zero, ctx.op.Equal(ctx.op.Reciprocal(x), ctx.constant(-np.inf, like=x)))
    extreme = ctx.constant(np.inf if nan_is_greatest else -np.inf, like=x)
    above, one = ctx.cast(ctx.op.Not(negative_zero), np.int32), ctx.cast(nan, np.int32)
    minor = ctx.op.Add(above, one) if nan_is_greatest else ctx.op.Sub(above, one)
    return [ctx.op.Where(nan, extreme, x), minor]


def _ordered_bits(ctx: Context, x: Value) -> Value:
    """Signed integers in the total order of the floats: the bits, inverted but for the sign where that is set."""
    kind = np.dtype(f"int{8 * ctx.dtype(x).itemsize}")
    bits = ctx.op.BitCast(x, to=kind)
    inverted = ctx.op.BitwiseXor(bits, ctx.constant(np.iinfo(kind).max, like=bits))
    return ctx.op.Where(ctx.op.Less(bits, ctx.constant(0, like=bits)), inverted, bits)
