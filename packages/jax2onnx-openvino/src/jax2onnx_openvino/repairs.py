"""NaN, which some of OpenVINO's kernels lose, and the truth of −2³¹: the results are put right behind the operator."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.legalise import repairs
from jax2onnx_graph.legalise.repairs import Loss, Repair, with_nan
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target, standard_target

__all__ = ["RepairsPass"]


class RepairsPass(repairs.RepairsPass):
    """Put back what the kernels lose.

    1. `Max`, `Min`, `Clip`, `Exp`, `Celu` and `HardSigmoid`: a NaN among the operands is the result.
    2. `Relu`: what is below zero is zero, anything else stays.
    3. `Greater` and `GreaterOrEqual`, which are true of NaN, are `Less` and `LessOrEqual` of the exchanged operands.
    4. `Cast` to booleans, false of NaN and of −2³¹: whether the number is not equal to zero.
    """

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target, _LOSSES)

    def rewrite(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        super().rewrite(editor)
        for node in list(editor.nodes()):
            x = node.inputs[0] if node.op_type == "Cast" else None
            if x is not None and (x.dtype, node.outputs[0].dtype) == (ir.DataType.INT32, ir.DataType.BOOL):
                editor.put(node, "Not", [_is_zero(editor.before(node), x)])


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


def _is_zero(b: GraphBuilder, x: ir.Value) -> ir.Value:
    return b.op("Equal", x, b.constant(0, like=x))


_LOSSES = {
    **dict.fromkeys(("Max", "Min", "Clip", "Exp", "Celu", "HardSigmoid"), Loss("nan", with_nan)),
    "Relu": Loss("nan", _chosen),
    "Greater": Loss("nan", _exchanged("Less")),
    "GreaterOrEqual": Loss("nan", _exchanged("LessOrEqual")),
    "Cast": Loss("nan", _is_true, result=ir.DataType.BOOL),
}
