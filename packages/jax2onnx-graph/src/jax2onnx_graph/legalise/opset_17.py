"""`Opset17Pass`: a finished model of opset 18 in the operators of opset 17, for tools that read no later one."""

from __future__ import annotations

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.operators import operators_where
from jax2onnx_graph.facts.values import known, operand
from jax2onnx_graph.legalise.kernels import operator_key
from jax2onnx_graph.opsets import declare_opset, means_the_same, opset_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.traversal import all_nodes, place_of

__all__ = ["Opset17Pass"]

#: ReduceSum alone has had its axes as an operand before.
_REDUCTIONS = operators_where(lambda facts: facts.reduces and facts.axes_input == 1) - {"ReduceSum"}


class Opset17Pass(GraphPass):
    """Write a model of opset 18 with opset 17.

    1. The axes of a reduction become its attribute.
    2. A Split into a number of parts loses the number, which its results tell: the parts are of one size, which we write no others of.
    3. A model in which some node is then not of opset 17, such as a BitwiseAnd, is refused, with all of these nodes.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above; the model is modified in place.

        Raises:
          ConversionError: nodes that opset 17 does not have.
        """
        result = super().call(model)
        if found := _of_later_opsets(model):
            lines = (f"\n  {key}: {len(nodes)}, first at {place_of(nodes[0])}" for key, nodes in found.items())
            raise ConversionError(
                f"Opset 17 does not have operators of this model in the form that it needs:{''.join(lines)}\nExport with opset=18 or a "
                "later one, or let the function do without them."
            )
        declare_opset(model, 17)
        return result

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply rules 1 and 2 to one graph."""
        for node in [] if editor.opset < 18 else list(editor.nodes()):
            if node.domain:
                continue
            if node.op_type in _REDUCTIONS:
                _name_axes(editor, node)
            elif node.op_type == "Split" and "num_outputs" in node.attributes:
                node.attributes.pop("num_outputs")
                editor.modified = True


def _name_axes(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 1 for a reduction; one of no axes at all, or of some that are computed, stays as it is."""
    axes, attributes = operand(node, 1), attribute_values(node)
    numbers = np.array([], np.int64) if axes is None else known(axes)
    keeps_all = attributes.pop("noop_with_empty_axes", 0) == 1
    if numbers is not None and (numbers.size > 0 or not keeps_all):
        named = [int(axis) for axis in numbers] or None
        editor.put(node, node.op_type, node.inputs[:1], {**attributes, "axes": named})


def _of_later_opsets(model: ir.Model) -> dict[str, list[ir.Node]]:
    """Operator -> nodes of it that opset 17 does not have in this form."""
    found: dict[str, list[ir.Node]] = {}
    for node in all_nodes(model):
        is_written = (
            node.op_type in _REDUCTIONS and len(node.inputs) == 1 and "noop_with_empty_axes" not in node.attributes
        )
        if not node.domain and not is_written and not means_the_same(node, opset_of(model), 17):
            found.setdefault(operator_key(node), []).append(node)
    return found
