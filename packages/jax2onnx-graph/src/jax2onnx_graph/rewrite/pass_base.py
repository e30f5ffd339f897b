"""`GraphPass`: the base class of passes, which walks all graphs of a model."""

from __future__ import annotations

import abc

from jax2onnx_graph._ir import ir
from jax2onnx_graph.rewrite.editor import GraphEditor

__all__ = ["GraphPass"]


class GraphPass(ir.passes.InPlacePass):
    """A pass that rewrites one graph at a time: the main graph, every subgraph, every function."""

    @abc.abstractmethod
    def rewrite(self, editor: GraphEditor) -> None:
        """Rewrite one graph through `editor`, in one walk."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = self._all(GraphEditor(model.graph))
        for function in model.functions.values():
            modified |= self._all(GraphEditor(function.graph, in_function=True))
        return ir.passes.PassResult(model, modified)

    def _all(self, editor: GraphEditor) -> bool:
        self.rewrite(editor)
        modified = editor.finish()
        for nested in editor.nested():
            modified |= self._all(nested)
        return modified | editor.modified
