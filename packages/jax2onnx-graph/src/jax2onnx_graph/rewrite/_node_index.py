"""`NodeIndex`: the nodes of a model by their operators, from one walk for all passes until the model changes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.traversal import HAS_SUBGRAPHS, subgraphs

__all__ = ["NodeIndex"]


class NodeIndex:
    """The nodes of all graphs of a model by their operators, as they were when this was made.

    Most passes find nothing to do, and would walk over all nodes to learn it.

    Attributes:
      operators: the operators that the model has.
    """

    def __init__(self, model: ir.Model) -> None:
        self._nodes: dict[ir.Graph, dict[str, list[tuple[int, ir.Node]]]] = {}
        self._within: dict[ir.Graph, set[str]] = {}
        for graph in (model.graph, *(function.graph for function in model.functions.values())):
            self._add(graph)
        self.operators = frozenset(itertools.chain(*self._nodes.values()))

    def _add(self, graph: ir.Graph) -> None:
        found = self._nodes[graph] = {}
        for place, node in enumerate(graph):
            found.setdefault(node.op_type, []).append((place, node))
        within = self._within[graph] = set(found)
        for node in self.nodes(graph, HAS_SUBGRAPHS):
            for inner in subgraphs(node):
                self._add(inner)
                within |= self._within[inner]

    def nodes(self, graph: ir.Graph, operators: Collection[str]) -> Sequence[ir.Node]:
        """The nodes of a graph, without those of its subgraphs, that have one of some operators, in order."""
        by_operator = self._nodes[graph]
        return [
            node for _, node in sorted(itertools.chain(*(by_operator[op] for op in by_operator if op in operators)))
        ]

    def has(self, graph: ir.Graph, operators: Collection[str]) -> bool:
        """Whether a graph, or one nested in it, has one of some operators."""
        return not self._within[graph].isdisjoint(operators)
