"""`InlineBranches`: an If whose condition is known is the branch that it takes."""

from __future__ import annotations

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase

__all__ = ["InlineBranches"]


class InlineBranches(NodePass[ir.Graph]):
    """Put the nodes of a branch in the place of an If.

    1. An If with a constant condition is replaced by the nodes of the branch that it takes.
    """

    phase = Phase.SIMPLIFY
    operators = frozenset({"If"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Graph | None:
        """The branch that is taken."""
        condition = known(node.inputs[0])
        if condition is None:
            return None
        branch = node.attributes["then_branch" if condition.all() else "else_branch"].as_graph()
        return None if branch.initializers else branch

    def rewrite(self, node: ir.Node, match: ir.Graph, editor: GraphEditor) -> None:
        results = list(match.outputs)
        match.outputs.clear()
        for inner in list(match):
            match.remove(inner)
            if inner.name:
                inner.name = editor.node_name(inner.name)
            editor.insert_before(node, inner)
        for old, new in zip(node.outputs, results, strict=True):
            editor.replace_result(node, old, new)
        editor.discard(node)
