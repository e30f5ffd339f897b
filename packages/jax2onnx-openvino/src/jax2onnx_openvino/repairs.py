"""What some of OpenVINO's kernels lose, NaN above all, is put right in front of the operator or behind it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.legalise import repairs
from jax2onnx_graph.legalise.repairs import Loss, Repair, with_nan
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target, standard_target

__all__ = ["RepairsPass"]

T = ir.DataType
_DIGITS = 8
"""Those of bfloat16."""

_SPLITTER = 2.0 ** (24 - _DIGITS) + 1


class RepairsPass(repairs.RepairsPass):
    """Put back what the kernels lose.

    1. `Max`, `Min`, `Clip`, `Exp`, `Celu` and `HardSigmoid`: a NaN among the operands is the result.
    2. `Relu`: what is below zero is zero, anything else stays.
    3. `Greater` and `GreaterOrEqual`, which are true of NaN, are `Less` and `LessOrEqual` of the exchanged operands.
    4. `Cast` to booleans, false of NaN and of −2³¹: whether the number is not equal to zero.
    5. `Cast` to bfloat16, which rounds even numbers to zero: numbers that are rounded before.
    """

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target, _LOSSES)

    def rewrite(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        super().rewrite(editor)
        for node in list(editor.nodes()):
            x = node.inputs[0] if node.op_type == "Cast" else None
            if x is None or x.dtype is None:
                continue
            result = node.outputs[0].dtype
            if (x.dtype, result) == (T.INT32, T.BOOL):
                editor.put(node, "Not", [_is_zero(editor.before(node), x)])
            elif result == T.BFLOAT16 and x.dtype.bitwidth > _DIGITS:
                node.replace_input_with(0, _rounded(editor.before(node), x))


def _chosen(b: GraphBuilder, operands: list[ir.Value], _: ir.Value) -> ir.Value:
    (x,) = operands
    zero = b.constant(0, like=x)
    return b.op("Where", b.op("Less", x, zero), zero, x, dims=b.dims(x))


def _exchanged(op_type: str) -> Repair:
    def repair(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
        x, y = operands
        return b.op(op_type, y, x, dims=b.dims(result))

    return repair


def _is_true(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    (x,) = operands
    return b.op("Not", _is_zero(b, x), dims=b.dims(result))


def _rounded(b: GraphBuilder, x: ir.Value) -> ir.Value:
    """`x` in float32, with the digits of bfloat16: split off by a product (T. J. Dekker, 1971) where that does not overflow."""
    x = b.cast(x, np.float32)
    product = b.op("Mul", x, b.constant(_SPLITTER, np.float32))
    rounded = b.op("Sub", product, b.op("Sub", product, x))
    is_split = b.op("Less", b.op("Abs", x), b.constant(2.0**111, np.float32))
    return b.op("Where", is_split, rounded, x)


def _is_zero(b: GraphBuilder, x: ir.Value) -> ir.Value:
    return b.op("Equal", x, b.constant(0, like=x))


_LOSSES = {
    **dict.fromkeys(("Max", "Min", "Clip", "Exp", "Celu", "HardSigmoid"), Loss("nan", with_nan)),
    "Relu": Loss("nan", _chosen),
    "Greater": Loss("nan", _exchanged("Less")),
    "GreaterOrEqual": Loss("nan", _exchanged("LessOrEqual")),
    "Cast": Loss("nan", _is_true, result=T.BOOL),
}
