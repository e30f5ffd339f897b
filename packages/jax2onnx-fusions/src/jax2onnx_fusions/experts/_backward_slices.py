"""`backward_slice`: the nodes that compute a value; `exclusive_nodes`: those whose results nothing else reads."""

from __future__ import annotations

from jax2onnx_graph import ir

__all__ = ["backward_slice", "exclusive_nodes"]

_MOST_NODES = 64


def backward_slice(value: ir.Value) -> set[ir.Node]:
    """The nodes of the same graph that compute a value, at most `_MOST_NODES`."""
    found, waiting = set[ir.Node](), [value]
    for one in waiting:
        node = one.producer()
        if node is None or node in found or len(found) >= _MOST_NODES or node.graph is not value.graph:
            continue
        found.add(node)
        waiting += [operand for operand in node.inputs if operand is not None]
    return found


def exclusive_nodes(nodes: set[ir.Node], reader: ir.Node) -> set[ir.Node]:
    """The nodes whose results only `reader` and other such nodes read."""
    while True:
        torn = {
            node for node in nodes for output in node.outputs
            if output.is_graph_output() or any(user is not reader and user not in nodes for user, _ in output.uses())
        }  # fmt: skip
        if not torn:
            return nodes
        nodes = nodes - torn
