"""`Scope`: one graph under construction, and `ScopeBuilder`, which writes nodes into it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import Array, GraphBuilder, Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.facts.dims import Dim, Dims

from jax2onnx_core import _compat_dims
from jax2onnx_core.lowering._dim_lowerer import DimLowerer
from jax2onnx_core.lowering._model_state import ModelState

__all__ = ["Scope", "ScopeBuilder"]

_PROLOGUE = Origin(operation="dims")


@dataclasses.dataclass(frozen=True)
class _SizeFromData:
    """A symbol whose value a node of the scope gives.

    Attributes:
      symbol: its name.
      place: the number of nodes of the scope before it.
      nodes: the arithmetic on dimensions that follows.
      dims: writes that.
    """

    symbol: str
    place: int
    nodes: list[ir.Node]
    dims: DimLowerer


class Scope:
    """The nodes of a main graph, a function or a subgraph while it is being built.

    A main graph or a function has a prologue: the arithmetic on dimensions, which depends on the graph's inputs only
    and goes first; subgraphs capture its values. Arithmetic on a size from data goes where that is known.
    """

    def __init__(self, state: ModelState, name: str, parent: Scope | None = None) -> None:
        self.state = state
        self.name = name
        self.parent = parent
        self.nodes: list[ir.Node] = []
        self.prologue: list[ir.Node] = []
        self.inputs: list[Value] = []
        self.subgraphs: list[Scope] = []
        self.sizes: list[_SizeFromData] = []
        self._dims: DimLowerer | None = None
        if parent is not None:
            self._dims = parent.dims
            parent.subgraphs.append(self)

    @property
    def dims(self) -> DimLowerer:
        """The dimension values of the main graph or function that this scope belongs to, without those that come from data."""
        assert self._dims is not None, "a root scope gets its symbols before anything is lowered in it"
        return self._dims

    def dims_for(self, dims: Sequence[Dim]) -> DimLowerer:
        """The lowerer of these dimensions, which computes them after all sizes from data that they have."""
        names = self.state.notation.from_data(dims)
        for name in names:
            if self.parent is not None and not self.knows_size(name):
                self._define_unused_size(name, dims)
        found = self._size(names) if names else None
        return self.dims if found is None else found.dims

    def symbol(self, name: str) -> Value:
        """The value of a symbol, an int64 tensor of shape [1]."""
        found = self._size((name,))
        return (self.dims if found is None else found.dims).symbol(name)

    def knows_size(self, symbol: str) -> bool:
        """Whether the value of a symbol from data is known here."""
        return self._size((symbol,)) is not None

    def _size(self, names: Sequence[str]) -> _SizeFromData | None:
        """The last size with one of these names that this scope or one around it has."""
        scope: Scope | None = self
        while scope is not None:
            for size in reversed(scope.sizes):
                if size.symbol in names:
                    return size
            scope = scope.parent
        return None

    def _define_unused_size(self, symbol: str, dims: Sequence[Dim]) -> None:
        """Let a size from data be the least one in a branch that does not give it: JAX makes arrays for the other branch there, of any numbers."""
        dim = next(
            _compat_dims.symbol(symbol, d)
            for d in dims
            if _compat_dims.is_symbolic_dim(d) and symbol in _compat_dims.symbols_of(d)
        )
        self.define_size(symbol, dim, 0, ScopeBuilder(self, _PROLOGUE, self.prologue).ints([1]))

    def define_size(self, symbol: str, dim: Dim, more: int, value: Value) -> None:
        """Say that a dimension has the value of an int64 tensor of shape [1] from here on; a symbol is `more` than that."""
        nodes: list[ir.Node] = []
        builder, notation = ScopeBuilder(self, _PROLOGUE, nodes), self.state.notation

        def symbol_value(name: str) -> Value:
            if name != symbol:
                return self.symbol(name)
            return builder.op.Add(value, builder.ints([more])) if more else value

        dims = DimLowerer(builder, symbol_value, terms=notation.terms, bounds=notation.bounds, known={dim: value})
        self.sizes.append(_SizeFromData(symbol, len(self.nodes), nodes, dims))

    def define_symbols(self, symbol: Callable[[str], Value]) -> None:
        """Say how the value of a symbol, an int64 tensor of shape [1], is made in this main graph or function."""
        self._dims = self.dim_lowerer(symbol)

    def dim_lowerer(self, symbol: Callable[[str], Value]) -> DimLowerer:
        """A `DimLowerer` that computes dimensions in the prologue from the values of symbols."""
        notation = self.state.notation
        return DimLowerer(self.prologue_builder(), symbol, terms=notation.terms, bounds=notation.bounds)

    def prologue_builder(self) -> ScopeBuilder:
        """A builder whose nodes go into the prologue."""
        return ScopeBuilder(self, _PROLOGUE, self.prologue)

    def all_nodes(self) -> list[ir.Node]:
        """The nodes, the prologue first, and the arithmetic on each size from data where that is known."""
        found, place = [*self.prologue], 0
        for size in self.sizes:
            found += [*self.nodes[place : size.place], *size.nodes]
            place = size.place
        return [*found, *self.nodes[place:]]

    def is_inside(self, other: Scope) -> bool:
        """Whether values of `other` can be used here."""
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other

    def mark(self) -> tuple[int, int, int]:
        """Position in the scope, for `roll_back`."""
        return len(self.nodes), len(self.subgraphs), len(self.sizes)

    def roll_back(self, mark: tuple[int, int, int] = (0, 0, 0)) -> list[Value]:
        """Forget the nodes, subgraphs and sizes since `mark`, and their uses of other values; the values that are gone."""
        nodes, subgraphs, sizes = mark
        forgotten = [*self.nodes[nodes:], *(node for size in self.sizes[sizes:] for node in size.nodes)]
        gone = [output for node in forgotten for output in node.outputs]
        for node in forgotten:
            for i in range(len(node.inputs)):
                node.replace_input_with(i, None)
        for subgraph in self.subgraphs[subgraphs:]:
            gone += subgraph.roll_back()
        del self.nodes[nodes:], self.subgraphs[subgraphs:], self.sizes[sizes:]
        return gone

    def own_outputs(self, outputs: Sequence[Value], origin: Origin) -> list[Value]:
        """The outputs as a graph may have them: each computed by the graph itself, and each once."""
        own = {v for node in self.all_nodes() for v in node.outputs}
        builder = ScopeBuilder(self, origin)
        finished: dict[Value, None] = {}
        for value in outputs:
            computed = value in own and value not in finished
            finished[value if computed else builder.op.Identity(value)] = None
        return list(finished)


class ScopeBuilder(GraphBuilder):
    """A builder whose nodes go to the end of a scope, named after an origin."""

    def __init__(self, scope: Scope, origin: Origin, nodes: list[ir.Node] | None = None) -> None:
        super().__init__(scope.state.opset, scope.state.target)
        self.scope = scope
        self.origin = origin
        self._nodes = scope.nodes if nodes is None else nodes
        self._state = scope.state

    def _insert(self, node: ir.Node) -> None:
        self._nodes.append(node)
        if self.origin.line is not None:
            node.metadata_props["source"] = self.origin.line

    def _node_name(self, op_type: str) -> str:
        return self._state.names.unique(self.origin.node_name(op_type))

    def dims(self, value: Value) -> Dims | None:
        """The dimensions of a value, ints or symbolic ones; None if nothing is known."""
        return self._state.dims(value)

    def set_dims(self, value: Value, dims: Sequence[Dim]) -> None:
        """Label a value with its dimensions."""
        self._state.set_dims(value, dims)

    def new_constant(self, array: Array, name: str = "const") -> Value:
        """The value that holds `array`; equal small arrays share one."""
        return self._state.constant(array, name)

    def new_tensor(self, tensor: ir.TensorProtocol, name: str) -> Value:
        """The value that holds a tensor whose numbers are absent."""
        return self._state.tensor(tensor, name)

    def dim(self, dim: Dim) -> Value:
        """A dimension as an int64 scalar."""
        return self.scope.dims_for([dim]).scalar(dim)

    def shape(self, dims: Sequence[Dim]) -> Value:
        """Dimensions as an int64 vector."""
        return self.scope.dims_for(dims).shape(dims)

    def is_positive(self, dim: Dim) -> bool:
        """Whether a dimension is at least 1 for all values of its symbols."""
        return self._state.notation.bounds(dim)[0] > 0
