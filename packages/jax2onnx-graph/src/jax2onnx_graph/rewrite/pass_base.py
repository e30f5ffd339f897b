"""`NodePass` and `GraphPass`: the base classes of passes, which walk all graphs of a model; `Phase`: when they run."""

from __future__ import annotations

import abc
import dataclasses
import enum
from typing import ClassVar, Generic, TypeVar

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.metadata import size_notes
from jax2onnx_graph.rewrite._node_index import NodeIndex
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_graph.traversal import place_of

__all__ = ["Declined", "GraphPass", "NodePass", "NotFormed", "Phase"]

_ELEMENT_TYPES = tuple(map(np.dtype, (np.float32, np.float64, np.float16, np.int64, np.int32)))

M = TypeVar("M")


class Phase(enum.IntEnum):
    """A part of the pipeline of passes; a pass of a phase runs after all passes of the phases before it."""

    SIMPLIFY = 0
    """Same values, fewer nodes, whatever they are for. These passes run until none of them changes anything: before the other
    phases, and again wherever a pass of those changed something. Such a pass never undoes what another one does."""
    FUSE = 1
    """Formulas become operators, whatever is transposed on the way."""
    LAY_OUT = 2
    """Axes are put in the order that costs least, and formulas are read that this order shows."""
    FINISH = 3
    """Work moves and is joined in ways that formulas would be hidden by."""


@dataclasses.dataclass(frozen=True)
class Declined:
    """The reason why a pass left a node as it is, though it looks like the end of a formula that the pass rewrites.

    Attributes:
      reason: the end of the sentence "Attention was not formed at model.py:31: …": "the probabilities have a second reader".
      node: the node whose line the user is shown.
    """

    reason: str
    node: ir.Node


@dataclasses.dataclass(frozen=True)
class NotFormed:
    """A formula that a pass left as it is.

    Attributes:
      operators: the operators that the pass would have made: "Attention"; see `GraphPass.forms`.
      place: the user's line where the model keeps lines, else the name of the node.
      reason: why, as the end of a sentence.
    """

    operators: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.operators} was not formed at {self.place}: {self.reason}"


class GraphPass(ir.passes.InPlacePass):
    """A pass that rewrites one graph at a time: the main graph, every subgraph, every function.

    `NodePass` is the usual base; this one is for what looks at a graph as a whole. The docstring of a pass lists its rules,
    numbered; its tests follow that list.

    Attributes:
      produces: operators that the pass makes and a graph need not have had before. Where the target has none of
        them at the model's opset, the pass does nothing. Each rewriting asks `editor.supports` about its own.
      phase: the part of the pipeline that it runs in. Without one it runs as soon as the passes `after` have run, but not before
        `Phase.FUSE`, and where it names none, in `Phase.FINISH`.
      after: the passes that have to run before it, of whichever distribution, in the same phase or an earlier one.
      visits_subgraphs: whether `rewrite_graph` is called for the subgraphs of a graph, too, once for each, after the graph.
      forms: the result of the pass, for the user: "A bidirectional recurrence"; the operators of `produces`, or
        the name of the pass, where it is empty.
      declined: the nodes that the last run left alone, with reasons.
      index: the nodes of the model that it runs on next by their operators, where these are known.
    """

    produces: ClassVar[frozenset[str]] = frozenset()
    phase: ClassVar[Phase | None] = None
    after: ClassVar[tuple[type[ir.passes.PassBase], ...]] = ()
    visits_subgraphs: ClassVar[bool] = True
    forms: ClassVar[str] = ""

    def __init__(self, target: Target = standard_target) -> None:
        self.target = target
        self.declined: list[Declined] = []
        self.index: NodeIndex | None = None

    @abc.abstractmethod
    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Rewrite one graph through `editor`, in one walk."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rewrite all graphs of the model."""
        self.declined.clear()
        opset = model.opset_imports.get("", 1)
        if not self.applies(opset):
            return ir.passes.PassResult(model, False)
        index, sizes = self.index, size_notes(model)
        modified = self._all(GraphEditor(model.graph, opset=opset, target=self.target, index=index, sizes=sizes))
        for function in model.functions.values():
            modified |= self._all(
                GraphEditor(function.graph, opset=opset, target=self.target, in_function=True, index=index, sizes=sizes)
            )
        return ir.passes.PassResult(model, modified)

    def not_formed(self) -> list[NotFormed]:
        """The nodes that the last run left alone, for the user."""
        made = self.forms or " or ".join(sorted(self.produces)) or type(self).__name__
        return [NotFormed(made, place_of(declined.node), declined.reason) for declined in self.declined]

    def applies(self, opset: int) -> bool:
        """Whether the target has one of the operators that the pass makes."""
        made = [(op_type, dtype) for op_type in self.produces for dtype in _ELEMENT_TYPES]
        return not made or any(self.target.supports(op_type, dtype, opset) for op_type, dtype in made)

    def concerns(self, editor: GraphEditor) -> bool:
        """Whether there may be something to do in a graph or in one nested in it."""
        return True

    def _all(self, editor: GraphEditor) -> bool:
        if not self.concerns(editor):
            return False
        self.rewrite_graph(editor)
        modified = editor.finish()
        for nested in editor.nested() if self.visits_subgraphs else ():
            modified |= self._all(nested)
        return modified | editor.modified


class NodePass(GraphPass, Generic[M]):
    """A pass that looks at the nodes of some operators, one after another: `match` reads, `rewrite` writes.

    Attributes:
      operators: the standard operators at whose nodes `match` is asked; None for all of them.
    """

    operators: ClassVar[frozenset[str] | None]

    @abc.abstractmethod
    def match(self, node: ir.Node, editor: GraphEditor) -> M | Declined | None:
        """Read a node as the end of a formula that the pass rewrites; the graph stays as it is.

        Returns:
          The formula for `rewrite`; `Declined` where most of it is there, but something forbids it, which the user is told;
          None where the node is something else.
        """

    @abc.abstractmethod
    def rewrite(self, node: ir.Node, match: M, editor: GraphEditor) -> None:
        """Put new nodes in the place of the formula that was matched.

        Args:
          node: the node at which the formula ends.
          match: the formula, as `match` read it.
          editor: the graph.
        """

    def concerns(self, editor: GraphEditor) -> bool:
        return self.operators is None or editor.may_have(self.operators)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes() if self.operators is None else editor.nodes_of(self.operators):
            if node.domain:
                continue
            found = self.match(node, editor)
            if found is None:
                continue
            if isinstance(found, Declined):
                self.declined.append(found)
            else:
                self.rewrite(node, found, editor)
