"""Recognise `Sigmoid` in its formula."""

from __future__ import annotations

__all__ = ["RecoverSilu"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import FLOATS, operation, other_operand, rewrite_as, scalar


class RecoverSilu(GraphPass):
    """1. `1 / (1 + Exp(-x))` is `Sigmoid(x)`.
    2. `x / (1 + Exp(-x))` is `x · Sigmoid(x)`, which ONNX Runtime runs as one kernel.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Div", "Reciprocal") or node.outputs[0].dtype not in FLOATS:
                continue
            x = _argument(node.inputs[-1])
            if x is None:
                continue
            if node.op_type == "Reciprocal" or scalar(node.inputs[0]) == 1:
                rewrite_as(editor, node, "Sigmoid", [x])
            elif node.inputs[0] is x:
                gate = ir.Node("", "Sigmoid", [x])
                gate.outputs[0].type, gate.outputs[0].shape = x.type, x.shape
                editor.graph.insert_before(node, gate)
                rewrite_as(editor, node, "Mul", [x, gate.outputs[0]])


def _argument(value: ir.Value | None) -> ir.Value | None:
    """x where `value` is 1 + Exp(-x)."""
    total = operation(value, "Add")
    if total is None:
        return None
    for operand in total.inputs:
        exponential = operation(other_operand(total, operand), "Exp")
        if scalar(operand) == 1 and exponential is not None:
            negated = operation(exponential.inputs[0], "Neg")
            return None if negated is None else negated.inputs[0]
    return None
