"""`LoopPass`: the base of passes that rewrite Loop and Scan."""

from __future__ import annotations

import abc

from jax2onnx_graph._ir import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.traversal import HAS_SUBGRAPHS

__all__ = ["LoopPass"]

_LOOPS = frozenset({"Loop", "Scan"})


class LoopPass(GraphPass):
    """A pass that looks at the loops of a graph, and at the loops inside of their bodies before them."""

    visits_subgraphs = False

    @abc.abstractmethod
    def rewrite_loop(self, editor: GraphEditor, loop: ir.Node) -> None:
        """Rewrite a Loop or Scan.

        Args:
          editor: the graph that the loop is in.
          loop: the node, whose body has been rewritten.
        """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes_of(HAS_SUBGRAPHS):
            for inner in editor.nested_in(node):
                self.rewrite_graph(inner)
                editor.modified |= inner.finish()
            if node.op_type in _LOOPS and not node.domain:
                self.rewrite_loop(editor, node)
