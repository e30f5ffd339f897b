"""`cone_of`: the nodes that compute a value, and those among them that nothing else reads."""

from __future__ import annotations

from jax2onnx_graph import ir

__all__ = ["cone_of", "exclusive"]

_MOST_NODES = 64


def cone_of(value: ir.Value) -> set[ir.Node]:
    """The nodes before a value, nearest first, up to a number."""
    found, waiting = set[ir.Node](), [value]
    for one in waiting:
        node = one.producer()
        if node is None or node in found or len(found) >= _MOST_NODES or node.graph is not value.graph:
            continue
        found.add(node)
        waiting += [operand for operand in node.inputs if operand is not None]
    return found


def exclusive(nodes: set[ir.Node], reader: ir.Node) -> set[ir.Node]:
    """Those of the nodes that only these nodes read, and the reader."""
    while True:
        torn = {
            node for node in nodes for output in node.outputs
            if output.is_graph_output() or any(user is not reader and user not in nodes for user, _ in output.uses())
        }  # fmt: skip
        if not torn:
            return nodes
        nodes = nodes - torn
