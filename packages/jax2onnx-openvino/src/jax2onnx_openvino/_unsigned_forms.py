"""Operators on uint32 written with operators on int32 of the same bits.

Nothing but the low 32 bits of sums and products, and numbers that float32 holds exactly, are relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.values import given_operands, known

__all__ = ["FORMS", "from_float", "inverted", "shifted", "to_float", "to_int64"]

#: Writes what a node computes; its operands of uint32 are int32 by now, and so is its result.
Form = Callable[[GraphBuilder, ir.Node], ir.Value]

_SIGN = 1 << 31
_HALF = 1 << 16
_ONES = (1 << 32) - 1
_SIGNIFICANT = 24
"""The bits of a number of float32."""

_AMOUNTS = np.arange(32, dtype=np.uint64)


def _bits(number: int) -> Array:
    """The number as int32 of the same bits."""
    return np.array(number, np.uint32).view(np.int32)


def _masked(b: GraphBuilder, x: ir.Value, mask: int) -> ir.Value:
    return b.op("BitwiseAnd", x, b.constant(_bits(mask)))


def inverted(b: GraphBuilder, x: ir.Value) -> ir.Value:
    """`x` with the sign bit inverted: the order of unsigned numbers is that of signed ones then."""
    array = known(x)
    if array is not None:
        return b.constant(array ^ _bits(_SIGN))
    return b.op("BitwiseXor", x, b.constant(_bits(_SIGN)))


# -- conversions ------------------------------------------------------------------------------


def to_float(b: GraphBuilder, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """The number in a floating-point type: both halves are exact in float32, so that their sum is rounded once."""
    high = b.cast(_masked(b, inverted(b, x), _ONES - _HALF + 1), np.float32)
    high = b.op("Add", high, b.constant(_SIGN, np.float32))
    low = b.cast(_masked(b, x, _HALF - 1), np.float32)
    return b.cast(b.op("Add", high, low), dtype.numpy())


def from_float(b: GraphBuilder, x: ir.Value) -> ir.Value:
    """A floating-point number from 0 to 2³² - 1, truncated."""
    x = b.cast(x, np.float32)
    high = b.op("Floor", b.op("Mul", x, b.constant(1 / _HALF, np.float32)))
    low = b.op("Sub", x, b.op("Mul", high, b.constant(_HALF, np.float32)))
    shifted = b.op("Mul", b.cast(high, np.int32), b.constant(_HALF, np.int32))
    return b.op("Add", shifted, b.cast(low, np.int32))


def to_int64(b: GraphBuilder, x: ir.Value) -> ir.Value:
    """The number in int64, which the plugin computes in 32 bits; larger numbers become the largest of those."""
    largest = b.constant(_SIGN - 1, np.int32)
    x = b.op("Where", b.op("Less", x, b.constant(0, np.int32)), largest, x)
    return b.cast(x, np.int64)


# -- shifts -----------------------------------------------------------------------------------


def _shift(b: GraphBuilder, node: ir.Node) -> ir.Value:
    x, amounts = given_operands(node)
    return shifted(b, x, amounts, node.attributes.get_string("direction", ""))


def shifted(b: GraphBuilder, x: ir.Value, amounts: ir.Value, direction: str) -> ir.Value:
    """The bits of int32 moved to the "LEFT" or to the "RIGHT", by amounts modulo 32; zeros move in."""
    if direction == "LEFT":
        return b.op("Mul", x, _chosen(b, np.uint64(1) << _AMOUNTS, amounts))
    return _shifted_right(b, x, amounts)


def _chosen(b: GraphBuilder, table: Array, amounts: ir.Value) -> ir.Value:
    """The entries of a table of 32 numbers at the lowest five bits of the amounts."""
    if np.issubdtype(table.dtype, np.integer):
        table = (table & np.uint64(_ONES)).astype(np.uint32).view(np.int32)
    array = known(amounts, limit=None)
    if array is not None:
        return b.constant(table[array & 31])
    return b.op("Gather", b.constant(table), _masked(b, amounts, 31), axis=0)


def _shifted_right(b: GraphBuilder, x: ir.Value, amounts: ir.Value) -> ir.Value:
    """Zeros move in from the left: products with powers of two of numbers that float32 holds, and their lowest bits."""
    power = _chosen(b, np.ldexp(np.float32(1), -_AMOUNTS.astype(np.int32)), amounts)

    def scaled(bits: ir.Value) -> ir.Value:
        return b.cast(b.op("Mul", b.cast(bits, np.float32), power), np.int32)

    kept = b.op("BitwiseAnd", x, _chosen(b, np.uint64(_ONES) << _AMOUNTS, amounts))
    array = known(amounts, limit=None)
    if array is not None and ((array & 31) >= 32 - _SIGNIFICANT).all():
        result = scaled(kept)
    else:
        result = b.op("BitwiseOr", scaled(_masked(b, kept, _ONES - _HALF + 1)), scaled(_masked(b, kept, _HALF - 1)))
    return b.op("BitwiseAnd", result, _chosen(b, np.uint64(_ONES) >> _AMOUNTS, amounts))


# -- division ---------------------------------------------------------------------------------


def _divided(b: GraphBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The quotient and the remainder (Warren, Hacker's Delight, 9-3).

    Twice the quotient of half of x is right or one too small; a divisor of 2³¹ or more goes into x once at most.
    """
    zero, one = b.constant(0, np.int32), b.constant(1, np.int32)
    halved = b.op("Div", _shifted_right(b, x, one), y)
    quotient = b.op("Add", halved, halved)
    array = known(y, limit=None)
    if array is None or (array < 0).any():
        quotient = b.op("Mul", quotient, b.cast(b.op("GreaterOrEqual", y, zero), np.int32))
    left = b.op("Sub", x, b.op("Mul", quotient, y))
    once = b.cast(b.op("GreaterOrEqual", inverted(b, left), inverted(b, y)), np.int32)
    return b.op("Add", quotient, once), b.op("Sub", left, b.op("Mul", once, y))


def _div(b: GraphBuilder, node: ir.Node) -> ir.Value:
    return _divided(b, *given_operands(node))[0]


def _mod(b: GraphBuilder, node: ir.Node) -> ir.Value:
    return _divided(b, *given_operands(node))[1]


# -- signs ------------------------------------------------------------------------------------


def _same(b: GraphBuilder, node: ir.Node) -> ir.Value:
    return b.op("Identity", *given_operands(node))


def _sign(b: GraphBuilder, node: ir.Node) -> ir.Value:
    (x,) = given_operands(node)
    return b.cast(b.cast(x, np.bool_), np.int32)


#: Operators that depend on what the bits of a number mean, other than by its order.
FORMS: Mapping[str, Form] = {
    "Abs": _same, "BitShift": _shift, "Div": _div, "Mod": _mod, "Relu": _same, "Sign": _sign,
}  # fmt: skip
