"""Casts that OpenVINO's CPU plugin gets wrong: to integers of 16 bits, which it keeps in 32, to half precision, and to booleans."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dtypes import is_exact_cast
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["CastsPass"]

T = ir.DataType
_LOW_BITS, _SIGN = (1 << 16) - 1, 1 << 15
_SPLITTERS = {T.BFLOAT16: (1 << 16) + 1, T.FLOAT16: (1 << 13) + 1}
"""The factors that split a float32 into two numbers, of which the larger has the digits of a type."""

_LEAST_NORMAL, _LEAST, _BEYOND = 2.0**-14, 2.0**-24, 65520.0
"""Of float16: the least number with all digits, the least of all, and the one from which on numbers become infinite."""


class CastsPass(GraphPass):
    """Let the plugin cast a number that equals the result.

    1. Integers that may not fit 16 bits to uint16: their lowest 16 bits; to int16: the same, the highest of them is the sign.
    2. Wider numbers to bfloat16, which it rounds to zero where the result is even: numbers that are rounded before.
    3. Numbers to float16, which it keeps in float32, where a Cast reads the result: numbers that are rounded before.
    4. int32 to booleans, of which -2³¹ is false: whether the number is not equal to zero.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            x, dtype = node.inputs[0] if node.op_type == "Cast" else None, node.outputs[0].dtype
            if x is None or x.dtype is None or dtype is None or is_exact_cast(x.dtype, dtype):
                continue
            b = editor.before(node)
            if dtype in (T.INT16, T.UINT16) and x.dtype.is_integer():
                node.replace_input_with(0, _wrapped(b, x, is_signed=dtype == T.INT16))
            elif dtype == T.BFLOAT16:
                node.replace_input_with(0, _rounded(b, x, dtype))
            elif dtype == T.FLOAT16 and any(reader.op_type == "Cast" for reader, _ in node.outputs[0].uses()):
                node.replace_input_with(0, _rounded_to_half(b, x))
            elif dtype == T.BOOL and x.dtype == T.INT32:
                editor.put(node, "Not", [b.op("Equal", x, b.constant(0, like=x))])


def _wrapped(b: GraphBuilder, x: ir.Value, *, is_signed: bool) -> ir.Value:
    """The int32 numbers that the lowest 16 bits stand for."""
    bits = b.op("BitwiseAnd", b.cast(x, np.int32), b.constant(_LOW_BITS, np.int32))
    if not is_signed:
        return bits
    sign = b.constant(_SIGN, np.int32)
    return b.op("Sub", b.op("BitwiseXor", bits, sign), sign)


def _rounded(b: GraphBuilder, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """`x` in float32, with the digits of `dtype`: split off by a product (T. J. Dekker, 1971) where that does not overflow."""
    x = b.cast(x, np.float32)
    product = b.op("Mul", x, b.constant(_SPLITTERS[dtype], np.float32))
    rounded = b.op("Sub", product, b.op("Sub", product, x))
    is_split = b.op("Less", b.op("Abs", x), b.constant(2.0**111, np.float32))
    return b.op("Where", is_split, rounded, x)


def _rounded_to_half(b: GraphBuilder, x: ir.Value) -> ir.Value:
    """`x` in float32 as a number of float16: fewer digits below its normal numbers, and infinity beyond its largest."""
    x = b.cast(x, np.float32)
    size, least = b.op("Abs", x), b.constant(_LEAST, np.float32)
    few = b.op("Mul", b.op("Round", b.op("Mul", x, b.constant(1 / _LEAST, np.float32))), least)
    is_few = b.op("Less", size, b.constant(_LEAST_NORMAL, np.float32))
    rounded = b.op("Where", is_few, few, _rounded(b, x, T.FLOAT16))
    is_finite = b.op("Less", size, b.constant(_BEYOND, np.float32))
    return b.op("Where", is_finite, rounded, b.op("Mul", x, b.constant(np.inf, np.float32)))
