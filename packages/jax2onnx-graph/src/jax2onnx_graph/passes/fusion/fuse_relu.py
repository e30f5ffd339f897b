"""Recognise `Relu` and `Clip` in `Max` and `Min`."""

from __future__ import annotations

__all__ = ["FuseRelu"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_floating, operation, other_operand, scalar


class FuseRelu(GraphPass):
    """Activations that runtimes fuse into the operator before them, unless the target prefers the extrema:

    1. `Max(x, 0)` of floats is `Relu(x)`.
    2. `Min(Relu(x), c)` with a positive number c is `Clip(x, 0, c)`.
    """

    produces = frozenset({"Relu", "Clip"})
    after = (EliminateCommonSubexpressions,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Max", "Min") or len(node.inputs) != 2:
                continue
            operand, bound = _operand_and_bound(node)
            if operand is None or not is_floating(operand):
                continue
            if node.op_type == "Max" and bound == 0 and _is_welcome(editor, Form.RELU, operand, Form.MAX):
                editor.put(node, "Relu", [operand])
            relu = operation(operand, "Relu")
            if (
                node.op_type == "Min"
                and relu is not None
                and bound > 0
                and _is_welcome(editor, Form.CLIP, operand, Form.MIN)
            ):
                builder = editor.before(node)
                limits = [builder.constant(number, like=operand) for number in (0, bound)]
                editor.put(node, "Clip", [relu.inputs[0], *limits])


def _is_welcome(editor: GraphEditor, form: Form, operand: ir.Value, instead_of: Form) -> bool:
    return editor.supports(form.value, operand) and editor.prefers(form, instead_of) is form


def _operand_and_bound(node: ir.Node) -> tuple[ir.Value | None, float]:
    """The operand that has the shape of the result, and the number that it is compared with; None if there is none."""
    for candidate in node.inputs:
        bound = scalar(candidate)
        operand = other_operand(node, candidate)
        if bound is not None and same_dims(dims_of(operand), dims_of(node.outputs[0])):
            return operand, bound
    return None, 0.0
