"""Recognise `Relu` and `Clip` in `Max` and `Min`."""

from __future__ import annotations

__all__ = ["RecoverRelu"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import FLOATS, operation, other_operand, rewrite_as, scalar


class RecoverRelu(GraphPass):
    """ONNX Runtime fuses `Relu` and `Clip` into convolutions; `Max` and `Min` it does not.

    1. `Max(x, 0)` of floats is `Relu(x)`.
    2. `Min(Relu(x), c)` with a positive number c is `Clip(x, 0, c)`.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Max", "Min") or len(node.inputs) != 2:
                continue
            operand, bound = _operand_and_bound(node)
            if operand is None or operand.dtype not in FLOATS:
                continue
            if node.op_type == "Max" and bound == 0:
                rewrite_as(editor, node, "Relu", [operand])
            relu = operation(operand, "Relu")
            if node.op_type == "Min" and relu is not None and bound > 0:
                number_type = operand.dtype.numpy().type
                limits = [editor.constant(number_type(number)) for number in (0, bound)]
                rewrite_as(editor, node, "Clip", [relu.inputs[0], *limits])


def _operand_and_bound(node: ir.Node) -> tuple[ir.Value | None, float]:
    for candidate in node.inputs:
        bound = scalar(candidate)
        operand = other_operand(node, candidate)
        if bound is not None and same_dims(dims_of(operand), dims_of(node.outputs[0])):
            return operand, bound
    return None, 0.0
