"""Recognise `Relu` and `Clip` in `Max` and `Min`."""

from __future__ import annotations

__all__ = ["RecoverRelu"]

import onnx_ir as ir
from jax2onnx_core.passes.graph_pass import GraphPass, Scope, dims_of, same_dims

from jax2onnx_lax.passes.matching import FLOATS, operation, other_operand, rewrite_as, scalar


class RecoverRelu(GraphPass):
    """ONNX Runtime fuses `Relu` and `Clip` into convolutions; `Max` and `Min` it does not.

    1. `Max(x, 0)` of floats is `Relu(x)`.
    2. `Min(Relu(x), c)` with a positive number c is `Clip(x, 0, c)`.
    """

    def rewrite(self, scope: Scope) -> None:
        for node in scope.nodes():
            if node.domain or node.op_type not in ("Max", "Min") or len(node.inputs) != 2:
                continue
            operand, bound = _operand_and_bound(node)
            if operand is None or operand.dtype not in FLOATS:
                continue
            if node.op_type == "Max" and bound == 0:
                rewrite_as(scope, node, "Relu", [operand])
            relu = operation(operand, "Relu")
            if node.op_type == "Min" and relu is not None and bound > 0:
                number_type = operand.dtype.numpy().type
                limits = [scope.constant(number_type(number)) for number in (0, bound)]
                rewrite_as(scope, node, "Clip", [relu.inputs[0], *limits])


def _operand_and_bound(node: ir.Node) -> tuple[ir.Value | None, float]:
    for candidate in node.inputs:
        bound = scalar(candidate)
        operand = other_operand(node, candidate)
        if bound is not None and same_dims(dims_of(operand), dims_of(node.outputs[0])):
            return operand, bound
    return None, 0.0
