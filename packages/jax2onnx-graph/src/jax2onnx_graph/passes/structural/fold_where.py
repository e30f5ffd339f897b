"""`FoldWhere`: selections whose condition is a constant are removed."""

from __future__ import annotations

__all__ = ["FoldWhere"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, known, same_dims
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase


class FoldWhere(NodePass[ir.Value]):
    """Remove Where with a constant condition, where the operand has the shape of the result.

    1. `Where(c, a, b)` is a, if every element of the constant c is true.
    2. It is b, if none is.
    """

    phase = Phase.SIMPLIFY
    after = (FoldConstants,)
    operators = frozenset({"Where"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | None:
        """The operand that the result is."""
        condition = known(node.inputs[0])
        if condition is None or not condition.size or condition.any() != condition.all():
            return None
        chosen = node.inputs[1 if condition.all() else 2]
        return chosen if same_dims(dims_of(chosen), dims_of(node.outputs[0])) else None

    def rewrite(self, node: ir.Node, match: ir.Value, editor: GraphEditor) -> None:
        editor.replace(node, match)
