"""Recognise `Sigmoid` in its formula."""

from __future__ import annotations

__all__ = ["FuseSilu"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation, other_operand, scalar


class FuseSilu(GraphPass):
    """The logistic function, which the formula computes in four operators:

    1. `1 / (1 + Exp(-x))` is `Sigmoid(x)`.
    2. `x / (1 + Exp(-x))`, known as SiLU or Swish, is `x · Sigmoid(x)`.
    """

    produces = frozenset({"Sigmoid"})
    after = (EliminateCommonSubexpressions,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Div", "Reciprocal"):
                continue
            x = _logistic_argument(node.inputs[-1])
            if x is None or not editor.supports("Sigmoid", x):
                continue
            if node.op_type == "Reciprocal" or scalar(node.inputs[0]) == 1:
                editor.put(node, "Sigmoid", [x])
            elif node.inputs[0] is x:
                editor.put(node, "Mul", [x, editor.before(node).op.Sigmoid(x)])


def _logistic_argument(value: ir.Value | None) -> ir.Value | None:
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
