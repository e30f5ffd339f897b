"""`GraphEditor`: the edits that a pass makes to one graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.rewrite.traversal import HAS_SUBGRAPHS, subgraphs

__all__ = ["GraphEditor"]


class GraphEditor:
    """One graph being rewritten, and the root (main graph or function) that owns its constants."""

    def __init__(self, graph: ir.Graph, root: GraphEditor | None = None, *, in_function: bool = False) -> None:
        self.graph = graph
        self.modified = False
        self._root = root or self
        self._in_function = in_function
        self._constants: dict[tuple[object, ...], ir.Value] = {}
        self._derived: dict[tuple[ir.Value, str], ir.Value] = {}
        self._dead: dict[ir.Node, None] = {}

    def nodes(self) -> Iterator[ir.Node]:
        """The nodes in order, without those discarded meanwhile."""
        return (node for node in self.graph if node not in self._dead)

    def nested(self) -> Iterator[GraphEditor]:
        """The graphs nested directly in this one."""
        for node in self.graph:
            if node.op_type in HAS_SUBGRAPHS:  # asked here too: this loop runs over all nodes for every pass
                for graph in subgraphs(node):
                    yield GraphEditor(graph, self._root)

    def constant(self, array: np.ndarray) -> ir.Value:
        """A constant holding the small `array`, shared within the root graph."""
        root = self._root
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in root._constants:
            root._constants[key] = root.own(ir.Tensor(array))
        return root._constants[key]

    def ints(self, values: Sequence[int]) -> ir.Value:
        """A constant int64 vector."""
        return self.constant(np.array(values, np.int64))

    def own(self, tensor: ir.TensorProtocol) -> ir.Value:
        """A new constant of the root: an initializer, in a function a Constant node."""
        root = self._root
        value = ir.Value(type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
        if root._in_function:
            node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], outputs=[value])
            _insert_first(root.graph, node)
        else:
            value.const_value = tensor
            value.name = _free_name(root.graph)
            root.graph.register_initializer(value)
        return value

    def derived(self, source: ir.Value, tensor: ir.TensorProtocol, what: str) -> ir.Value:
        """The constant `tensor` made from the constant `source`, shared within the root graph and named after it."""
        root = self._root
        if (source, what) not in root._derived:
            value = root._derived[source, what] = root.own(tensor)
            name = f"{source.name}.{what}"
            if not root._in_function and name not in root.graph.initializers:
                value.name = name
        return root._derived[source, what]

    def insert(self, node: ir.Node, *, after: ir.Value) -> None:
        """Insert `node` into this graph as early as `after` is available."""
        producer = after.producer()
        if producer is not None and producer.graph is self.graph:
            self.graph.insert_after(producer, node)
        else:
            _insert_first(self.graph, node)

    def discard(self, node: ir.Node) -> None:
        """Take a node out of use now; it leaves the graph when the pass is done."""
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
        self._dead[node] = None
        self.modified = True

    def replace(self, node: ir.Node, value: ir.Value) -> bool:
        """Let every user of the node's only output use the equal `value`, and discard the node.

        A graph output keeps its name: the name moves to `value` where that is possible; otherwise
        the node stays for the output alone. Returns whether anything changed.
        """
        output = node.outputs[0]
        if output.is_graph_output() and not self._take_over_output(output, value):
            uses = output.uses()
            for user, index in uses:
                user.replace_input_with(index, value)
            self.modified |= bool(uses)
            return bool(uses)
        for user, index in output.uses():
            user.replace_input_with(index, value)
        self.discard(node)
        return True

    def finish(self) -> bool:
        """Remove what was discarded; returns whether the graph was modified."""
        if self._dead:
            self.graph.remove(self._dead)
            self._dead = {}
        return self.modified

    def _take_over_output(self, output: ir.Value, value: ir.Value) -> bool:
        producer = value.producer()
        if producer is None or producer.graph is not self.graph or producer.op_type == "Constant":
            return False
        if value.is_graph_output() or value.is_graph_input():
            return False
        outputs = self.graph.outputs
        for index, candidate in enumerate(outputs):
            if candidate is output:
                outputs[index] = value
        value.name, output.name = output.name, None
        return True


def _insert_first(graph: ir.Graph, node: ir.Node) -> None:
    for first in graph:
        graph.insert_before(first, node)
        return
    graph.append(node)


def _free_name(graph: ir.Graph) -> str:
    number = len(graph.initializers)
    while f"constant_{number}" in graph.initializers:
        number += 1
    return f"constant_{number}"
