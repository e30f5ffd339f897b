"""Results of If in a form whose memory OpenVINO's CPU plugin keeps until they are read."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.metadata import is_mended, note_mended
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["BranchResultsPass"]

_COPIED = "memory of results"


class BranchResultsPass(GraphPass):
    """Copy each result of an `If` that other operators read, by an Expand to the shape that it has.

    Where shapes are dynamic, the plugin prepares the memory of all operators up to the next one whose shape depends on numbers
    before it runs them. It means to give no later operator the memory of a value that is read after such a point, but counts
    the place of an If before its branches and the place of its results behind them, so that a larger value may take their
    memory before they are read. The Expand is such a point itself, and its own result is counted right.

    Results that the graph gives have memory of their own, and scalars one size: neither is copied. Where shapes are static
    the plugin leaves the copy out.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type == "If" and not node.domain and not is_mended(node, _COPIED):
                note_mended(node, _COPIED)
                for result in node.outputs:
                    if result.uses() and not result.is_graph_output() and dims_of(result) != ():
                        editor.reroute(result, partial(_copy, editor.after(result, node)))


def _copy(builder: InsertionPoint, value: ir.Value) -> ir.Value:
    """The same elements, by an operator whose shape depends on numbers."""
    dims = dims_of(value)
    shape = builder.op.Shape(value, dims=None if dims is None else (len(dims),))
    return builder.op.Expand(value, shape, dims=None if dims is None else labelled(dims))
