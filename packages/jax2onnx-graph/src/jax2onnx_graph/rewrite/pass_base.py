"""`GraphPass`: the base class of passes, which walks all graphs of a model."""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target, standard_target

__all__ = ["GraphPass"]

_ELEMENT_TYPES = tuple(map(np.dtype, (np.float32, np.float64, np.float16, np.int64, np.int32)))


class GraphPass(ir.passes.InPlacePass):
    """A pass that rewrites one graph at a time: the main graph, every subgraph, every function.

    The docstring of a pass lists its rules, numbered; its tests follow that list.

    Attributes:
      produces: operators that the pass makes and a graph need not have had before. Where the target has none of
        them at the model's opset, the pass does nothing. Each rewriting asks `editor.supports` about its own.
      after: the names of the passes that have to run before it.
    """

    produces: ClassVar[frozenset[str]] = frozenset()
    after: ClassVar[tuple[str, ...]] = ()

    def __init__(self, target: Target = standard_target) -> None:
        self.target = target

    @abc.abstractmethod
    def rewrite(self, editor: GraphEditor) -> None:
        """Rewrite one graph through `editor`, in one walk."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite all graphs of the model."""
        opset = model.opset_imports.get("", 1)
        if not self._applies(opset):
            return ir.passes.PassResult(model, False)
        modified = self._all(GraphEditor(model.graph, opset=opset, target=self.target))
        for function in model.functions.values():
            modified |= self._all(GraphEditor(function.graph, opset=opset, target=self.target, in_function=True))
        return ir.passes.PassResult(model, modified)

    def _applies(self, opset: int) -> bool:
        made = [(op_type, dtype) for op_type in self.produces for dtype in _ELEMENT_TYPES]
        return not made or any(self.target.supports(op_type, dtype, opset) for op_type, dtype in made)

    def _all(self, editor: GraphEditor) -> bool:
        self.rewrite(editor)
        modified = editor.finish()
        for nested in editor.nested():
            modified |= self._all(nested)
        return modified | editor.modified
