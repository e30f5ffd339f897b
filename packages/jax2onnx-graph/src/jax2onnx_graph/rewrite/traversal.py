"""Walks over the nodes and graphs of a model."""

from __future__ import annotations

from collections.abc import Iterator

from jax2onnx_graph._ir import ir

__all__ = ["HAS_SUBGRAPHS", "subgraphs"]

#: The operators that have graphs among their attributes.
HAS_SUBGRAPHS = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that are attributes of `node`."""
    if node.op_type in HAS_SUBGRAPHS:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield attribute.as_graph()
