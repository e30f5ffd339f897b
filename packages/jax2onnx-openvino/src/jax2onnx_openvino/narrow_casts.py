"""Casts to integers of 16 bits, which OpenVINO's CPU plugin keeps in 32."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dtypes import is_exact_cast
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["NarrowCastsPass"]

T = ir.DataType
_BITS, _SIGN = (1 << 16) - 1, 1 << 15


class NarrowCastsPass(GraphPass):
    """Let integers wrap around before a Cast to 16 bits.

    1. To uint16: the lowest 16 bits.
    2. To int16: the same, and the highest of them is the sign.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            x, result = (node.inputs[0], node.outputs[0]) if node.op_type == "Cast" else (None, None)
            if x is None or result is None or x.dtype is None or not x.dtype.is_integer():
                continue
            if result.dtype in (T.INT16, T.UINT16) and not is_exact_cast(x.dtype, result.dtype):
                node.replace_input_with(0, _wrapped(editor.before(node), x, is_signed=result.dtype == T.INT16))


def _wrapped(b: GraphBuilder, x: ir.Value, *, is_signed: bool) -> ir.Value:
    """The int32 numbers that the lowest 16 bits stand for."""
    bits = b.op("BitwiseAnd", b.cast(x, np.int32), b.constant(_BITS, np.int32))
    if not is_signed:
        return bits
    sign = b.constant(_SIGN, np.int32)
    return b.op("Sub", b.op("BitwiseXor", bits, sign), sign)
