"""`backward_slice`: the nodes that compute a value; `exclusive_nodes`, `behind_weights`: parts of them."""

from __future__ import annotations

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import rank_of

from jax2onnx_fusions.experts._expert_subgraph import is_weight

__all__ = ["backward_slice", "behind_weights", "exclusive_nodes"]

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


def behind_weights(nodes: set[ir.Node]) -> set[ir.Node]:
    """Products with a weight of each expert, and the nodes that compute of their results."""
    found = {node for node in nodes if node.op_type == "MatMul" and any(map(_is_stacked_weight, node.inputs))}
    waiting = [*found]
    for node in waiting:
        for output in node.outputs:
            new = {user for user, _ in output.uses() if user in nodes} - found
            found |= new
            waiting += new
    return found


def _is_stacked_weight(value: ir.Value | None) -> bool:
    return is_weight(value) and rank_of(value) == 3
