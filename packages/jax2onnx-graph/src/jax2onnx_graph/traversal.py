"""Walks over the nodes and graphs of a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.operators import operators_where

__all__ = [
    "HAS_SUBGRAPHS",
    "all_graphs",
    "all_nodes",
    "all_values",
    "check_depth",
    "given_inputs",
    "is_read",
    "is_value_read",
    "needed_by",
    "place_of",
    "subgraphs",
    "too_deep",
    "values_in",
    "walk",
]

#: The operators that have graphs among their attributes.
HAS_SUBGRAPHS = operators_where(lambda facts: facts.has_subgraphs)


# Protobuf reads messages that are nested 100 deep: three for each subgraph, and seven in the innermost one.
_DEEPEST = 31


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
        yield from _with_nested(graph)


def _with_nested(graph: ir.Graph) -> Iterator[ir.Graph]:
    yield graph
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _with_nested(attribute.as_graph())


def all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes of the main graph, the functions and every subgraph."""
    for graph in all_graphs(model):
        yield from graph


def all_values(model: ir.Model) -> Iterator[ir.Value]:
    """The inputs, initializers and results of all nodes, of the main graph, the functions and every subgraph."""
    return values_in(all_graphs(model))


def values_in(graphs: Iterable[ir.Graph]) -> Iterator[ir.Value]:
    """The inputs, initializers and results of all nodes of some graphs, without those nested in them."""
    for graph in graphs:
        yield from graph.inputs
        yield from graph.initializers.values()
        for node in graph:
            yield from node.outputs


def check_depth(model: ir.Model) -> None:
    """Raise ConversionError if control flow is nested so deep that no runtime could read the file of the model."""
    deepest = 0
    pending = [(graph, 0) for graph in (model.graph, *(function.graph for function in model.functions.values()))]
    while pending:
        graph, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(inner, depth + 1) for node in graph for inner in subgraphs(node)]
    if deepest > _DEEPEST:
        raise too_deep(str(deepest))


def too_deep(levels: str) -> ConversionError:
    """The error about control flow that is nested so many levels deep."""
    return ConversionError(
        f"Conditionals and loops are nested {levels} deep, but a model file can be read to {_DEEPEST} levels only. "
        "Turn nested conditionals into one with several branches, or nested loops into one over all of their steps; or "
        "make a function of the inner levels, which begins anew to count."
    )


def given_inputs(graph: ir.Graph) -> Iterator[ir.Value]:
    """The inputs that a caller gives: older models list their initializers among the inputs, too."""
    return (value for value in graph.inputs if value.name not in graph.initializers)


def is_read(node: ir.Node) -> bool:
    """Whether a result of a node is read, or an output of its graph."""
    # A loop, since this is asked of every node again and again.
    for output in node.outputs:  # noqa: SIM110
        if output.uses() or output.is_graph_output():
            return True
    return False


def is_value_read(value: ir.Value) -> bool:
    """Whether a value is read, or an output of its graph."""
    return bool(value.uses()) or value.is_graph_output()


def place_of(node: ir.Node) -> str:
    """The user's line that a node is from where it was kept, else the node's name, which tells the module."""
    return node.metadata_props.get("source") or node.name or "unnamed"


def needed_by(node: ir.Node) -> set[ir.Node]:
    """The nodes from whose results a node computes its own, those that its subgraphs and theirs read among them."""
    found: set[ir.Node] = set()
    pending = [node]
    while pending:
        for value in itertools.chain.from_iterable(one.inputs for one in walk([pending.pop()])):
            producer = None if value is None else value.producer()
            if producer is not None and producer not in found:
                found.add(producer)
                pending.append(producer)
    return found
