"""Walks over the nodes and graphs of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import operators_where

__all__ = ["HAS_SUBGRAPHS", "all_graphs", "subgraphs", "walk"]

#: The operators that have graphs among their attributes.
HAS_SUBGRAPHS = operators_where(lambda facts: facts.has_subgraphs)


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that are attributes of `node`."""
    if node.op_type in HAS_SUBGRAPHS:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield attribute.as_graph()


def walk(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """The nodes in order, each followed by those of its subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from walk(graph)


def all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """The main graph, the bodies of the functions, and every subgraph of these."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield graph
        yield from graph.subgraphs()
