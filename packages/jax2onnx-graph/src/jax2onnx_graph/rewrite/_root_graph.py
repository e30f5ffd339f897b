"""`RootGraph`: a main graph or function, which owns the constants and names of all graphs nested in it."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.final_names import common_name
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.fingerprints import array_fingerprint
from jax2onnx_graph.metadata import SizeNotes
from jax2onnx_graph.rewrite._node_index import NodeIndex
from jax2onnx_graph.traversal import subgraphs, walk

__all__ = ["RootGraph"]


class RootGraph:
    """The constants and names that the editors of a main graph or function and of its subgraphs share.

    In the main graph constants are initializers; a function, which has none, gets Constant nodes.

    Attributes:
      index: the nodes by their operators, until one of the editors changes something.
      sizes: which dimensions may be 0.
    """

    def __init__(
        self, graph: ir.Graph, *, is_function: bool, index: NodeIndex | None = None, sizes: SizeNotes | None = None
    ) -> None:
        self._graph = graph
        self.index = index
        self.sizes = sizes or SizeNotes({})
        self._is_function = is_function
        self._constants: dict[Hashable, ir.Value] = {}
        self._derived: dict[tuple[ir.Value, str], ir.Value] = {}
        self._value_names: Names | None = None
        self._interface: set[str | None] | None = None

    def is_graph(self, graph: ir.Graph) -> bool:
        """Whether it is this graph itself, and none of its subgraphs."""
        return graph is self._graph

    def constant(self, array: Array) -> ir.Value:
        """The constant that holds the small `array`; equal ones are stored once."""
        key = array_fingerprint(array)
        if key not in self._constants:
            self._constants[key] = self.own(ir.Tensor(array))
        return self._constants[key]

    def own(self, tensor: ir.TensorProtocol, sources: Sequence[ir.Value | None] = ()) -> ir.Value:
        """A new constant, named after those that it was made from."""
        value = ir.Value(type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
        if self._is_function:
            _put_first(self._graph, ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], outputs=[value]))
        else:
            value.const_value = tensor
            value.name = self._numbered(common_name([v for v in sources if v is not None]))
            self._graph.register_initializer(value)
        return value

    def derived(self, source: ir.Value, tensor: ir.TensorProtocol, what: str) -> ir.Value:
        """A constant made from another, stored once for each `source` and `what`.

        Args:
          source: the constant that it is made from, and named after.
          tensor: its numbers.
          what: a word for what was done, the end of its name.
        """
        if (source, what) not in self._derived:
            value = self._derived[source, what] = self.own(tensor)
            name = f"{source.name}.{what}"
            if not self._is_function and self._is_free(name):
                value.name = name
        return self._derived[source, what]

    def value_name(self, base: str) -> str:
        """A name for a value: `base`, with a number where a value of the root graph or its subgraphs has it."""
        if self._value_names is None:
            self._value_names = Names(value.name for value in _values(self._graph) if value.name)
        return self._value_names.unique(base)

    def _numbered(self, base: str) -> str:
        """A name for a constant: `base` with a number."""
        numbers = itertools.count(len(self._graph.initializers))
        return next(name for number in numbers if self._is_free(name := f"{base}_{number}"))

    def _is_free(self, name: str) -> bool:
        """Whether no constant has a name, nor an input or output: a constant with the name of an input would be its default."""
        if self._interface is None:
            self._interface = {value.name for value in (*self._graph.inputs, *self._graph.outputs)}
        return name not in self._graph.initializers and name not in self._interface


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    """The values of a graph and of its subgraphs."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in walk(graph):
        yield from node.outputs
        for subgraph in subgraphs(node):
            yield from subgraph.inputs


def _put_first(graph: ir.Graph, node: ir.Node) -> None:
    for first in graph:
        graph.insert_before(first, node)
        return
    graph.append(node)
