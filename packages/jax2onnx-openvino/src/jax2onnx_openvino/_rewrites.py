"""Integer operators that OpenVINO's CPU plugin computes in float32, written with operators that it computes in int32.

Sums, differences, products, bitwise operators and ScatterElements are exact; division, comparisons and reductions are not
beyond 2²⁴, nor are extrema and padding where a constant is beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.values import constant_tensor, given_operands, known
from jax2onnx_graph.legalise.legalisation import Rewrite
from jax2onnx_graph.legalise.magnitudes import Magnitude
from jax2onnx_graph.legalise.reductions import accumulated, reduced_extreme, summed_products

from jax2onnx_openvino._unsigned_forms import shifted

__all__ = ["REWRITES", "is_small_enough"]

T = ir.DataType
_EXACT = 1 << 24
"""Integers up to here are numbers of float32."""

_SUMMED = 1 << 8
"""The sum of 2¹⁶ numbers up to here is one, too."""


def is_small_enough(key: str, magnitude: Magnitude) -> bool:
    """Whether the kernel is right for operands of this magnitude; sizes of axes are taken to be small."""
    limit = _SUMMED if key in ("ReduceSum", "ReduceProd", "MatMul") else _EXACT
    return magnitude.is_size or magnitude.limit < limit


def _is_exact_constant(value: ir.Value) -> bool:
    array = known(value, limit=None)
    return array is not None and bool((np.abs(array.astype(np.float64)) < _EXACT).all())


# -- comparisons ------------------------------------------------------------------------------


def _is_less(b: GraphBuilder, x: ir.Value, y: ir.Value, dims: Dims | None) -> ir.Value:
    """Whether x < y: the sign of their difference, put right where that overflows (Warren, Hacker's Delight, 2-12)."""
    x, y = b.cast(x, np.int32), b.cast(y, np.int32)
    difference = b.op("Sub", x, y, dims=dims)
    apart, moved = b.op("BitwiseXor", x, y, dims=dims), b.op("BitwiseXor", difference, x, dims=dims)
    sign = b.op("BitwiseXor", difference, b.op("BitwiseAnd", apart, moved, dims=dims), dims=dims)
    return b.op("Less", sign, b.constant(0, np.int32), dims=dims)


def _compared(*, swapped: bool, negated: bool) -> Rewrite:
    def rewrite(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
        x, y = given_operands(node)
        if _is_exact_constant(x) or _is_exact_constant(y):
            return None
        dims = b.dims(node.outputs[0])
        result = _is_less(b, *((y, x) if swapped else (x, y)), dims)
        return b.op("Not", result, dims=dims) if negated else result

    return rewrite


def _equal(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
    """Whether the difference is zero."""
    x, y = given_operands(node)
    if _is_exact_constant(x) or _is_exact_constant(y):
        return None
    dims = b.dims(node.outputs[0])
    difference = b.op("Sub", b.cast(x, np.int32), b.cast(y, np.int32), dims=dims)
    return b.op("Equal", difference, b.constant(0, np.int32), dims=dims)


def _where(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value | None:
    """One of two values, chosen bit by bit: next to a comparison the kernel of Where computes in float32."""
    condition, x, y = given_operands(node)
    if _is_exact_constant(x) and _is_exact_constant(y):
        return None
    dims, number = b.dims(node.outputs[0]), dtype.numpy()
    mask = b.op("Sub", b.constant(0, number), b.cast(condition, number))
    chosen = b.op("BitwiseAnd", b.op("BitwiseXor", x, y), mask, dims=dims)
    return b.op("BitwiseXor", chosen, y, dims=dims)


# -- constants that float32 does not hold -----------------------------------------------------


def _is_inexact(value: ir.Value | None) -> bool:
    return value is not None and constant_tensor(value) is not None and not _is_exact_constant(value)


def _extreme(comparison: str) -> Rewrite:
    """The one of two numbers that a comparison chooses, and of that and the next."""

    def rewrite(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
        first, *others = given_operands(node)
        if not any(map(_is_inexact, (first, *others))):
            return None
        for other in others:
            first = b.op("Where", b.op(comparison, first, other), first, other)
        return first

    return rewrite


def _clipped(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
    x, low, high = (*node.inputs, None, None)[:3]
    if not any(map(_is_inexact, (low, high))):
        return None
    if low is not None:
        x = b.op("Max", x, low)
    return x if high is None else b.op("Min", x, high)


def _padded(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
    """The bits that differ from those of the value to pad by, padded by zeros."""
    x, pads, fill, axes = (*node.inputs, None, None)[:4]
    if x is None or fill is None or _is_exact_constant(fill):
        return None
    dims = b.dims(node.outputs[0])
    different = b.op("BitwiseXor", x, fill, dims=b.dims(x))
    return b.op("BitwiseXor", b.op("Pad", different, pads, None, axes, dims=dims), fill, dims=dims)


# -- division ---------------------------------------------------------------------------------


def _divided(b: GraphBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The truncated quotient of int32, and the remainder.

    The quotient in float32 is off by a part in 2²²; that of what it leaves is off by one at most. Differences and products
    wrap around, so that what is left is right even where the product on the way does not fit.
    """

    def near(left: ir.Value) -> ir.Value:
        return b.cast(b.op("Div", b.cast(left, np.float32), b.cast(y, np.float32)), np.int32)

    def negative(value: ir.Value) -> ir.Value:
        return b.op("Mul", value, b.op("Mul", b.op("Sign", value), b.constant(-1, np.int32)))

    first = near(x)
    left = b.op("Sub", x, b.op("Mul", first, y))
    second = near(left)
    quotient, left = b.op("Add", first, second), b.op("Sub", left, b.op("Mul", second, y))
    # What is left has to be nearer to zero than y, and of the sign of x.
    over = b.op("Not", _is_less(b, negative(y), negative(left), None))
    under = b.op("Less", b.op("Mul", b.op("Sign", left), b.op("Sign", x)), b.constant(0, np.int32))
    step = b.op("Sub", b.cast(over, np.int32), b.cast(under, np.int32))
    step = b.op("Mul", step, b.op("Mul", b.op("Sign", x), b.op("Sign", y)))
    return b.op("Add", quotient, step), b.op("Sub", left, b.op("Mul", step, y))


def _quotient_and_rest(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> tuple[ir.Value, ir.Value]:
    x, y = given_operands(node)
    quotient, rest = _divided(b, b.cast(x, np.int32), b.cast(y, np.int32))
    return b.cast(quotient, dtype.numpy()), b.cast(rest, dtype.numpy())


def _div(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value | None:
    return _quotient_and_rest(b, node, dtype)[0]


def _mod(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value | None:
    _, rest = _quotient_and_rest(b, node, dtype)
    if node.attributes.get_int("fmod", 0):
        return rest
    y = given_operands(node)[1]
    other = b.op("Less", b.op("Mul", b.op("Sign", rest), b.op("Sign", y)), b.constant(0, dtype.numpy()))
    return b.op("Add", rest, b.op("Mul", y, b.cast(other, dtype.numpy())))


# -- narrow integers --------------------------------------------------------------------------


def _in_int32(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    """The operator on int32, whose kernel is right for numbers that small."""
    operands = [b.cast(value, np.int32) for value in given_operands(node)]
    fmod = node.attributes.get_int("fmod", 0) or None
    return b.cast(b.op(node.op_type, *operands, fmod=fmod), dtype.numpy())


def _narrow_or(wide: Rewrite) -> Rewrite:
    """The operator in int32 for narrow integers, and a rewrite for others."""
    return lambda b, node, dtype: (_in_int32 if dtype in _NARROW else wide)(b, node, dtype)


def _shifted(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    x, amounts = (b.cast(value, np.int32) for value in given_operands(node))
    return b.cast(shifted(b, x, amounts, node.attributes.get_string("direction", "")), dtype.numpy())


_WIDE = (T.INT32, T.INT64)
_NARROW = (T.INT8, T.UINT8, T.INT16, T.UINT16)
_INTEGERS = (*_NARROW, *_WIDE)

#: Operators, what writes them with others, and for which element types.
REWRITES: Mapping[str, tuple[Rewrite, Sequence[ir.DataType]]] = {
    "Less": (_compared(swapped=False, negated=False), _WIDE),
    "Greater": (_compared(swapped=True, negated=False), _WIDE),
    "LessOrEqual": (_compared(swapped=True, negated=True), _WIDE),
    "GreaterOrEqual": (_compared(swapped=False, negated=True), _WIDE),
    "Equal": (_equal, _WIDE),
    "Where": (_where, _WIDE),
    "Max": (_extreme("Greater"), _WIDE),
    "Min": (_extreme("Less"), _WIDE),
    "Clip": (_clipped, _WIDE),
    "Pad": (_padded, _WIDE),
    "BitShift": (_shifted, (T.UINT8, T.UINT16)),
    "Div": (_narrow_or(_div), _INTEGERS),
    "Mod": (_narrow_or(_mod), _INTEGERS),
    "ReduceMax": (reduced_extreme("ArgMax"), _WIDE),
    "ReduceMin": (reduced_extreme("ArgMin"), _WIDE),
    "ReduceSum": (accumulated("add"), _INTEGERS),
    "ReduceProd": (accumulated("mul"), (*_NARROW, T.INT64)),
    "MatMul": (summed_products, _INTEGERS),
}
