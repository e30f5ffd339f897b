"""Recognise `Sigmoid` in its formula."""

from __future__ import annotations

__all__ = ["RecoverSilu"]

import onnx_ir as ir
from jax2onnx_core.passes.graph_pass import GraphPass, Scope

from jax2onnx_lax.passes.matching import FLOATS, operation, other_operand, rewrite_as, scalar


class RecoverSilu(GraphPass):
    """1. `1 / (1 + Exp(-x))` is `Sigmoid(x)`.
    2. `x / (1 + Exp(-x))` is `x · Sigmoid(x)`, which ONNX Runtime runs as one kernel.
    """

    def rewrite(self, scope: Scope) -> None:
        for node in scope.nodes():
            if node.domain or node.op_type not in ("Div", "Reciprocal") or node.outputs[0].dtype not in FLOATS:
                continue
            x = _argument(node.inputs[-1])
            if x is None:
                continue
            if node.op_type == "Reciprocal" or scalar(node.inputs[0]) == 1:
                rewrite_as(scope, node, "Sigmoid", [x])
            elif node.inputs[0] is x:
                gate = ir.Node("", "Sigmoid", [x])
                gate.outputs[0].type, gate.outputs[0].shape = x.type, x.shape
                scope.graph.insert_before(node, gate)
                rewrite_as(scope, node, "Mul", [x, gate.outputs[0]])


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
