"""`Scope`: one graph under construction, and `ScopeBuilder`, which writes nodes into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import Array, GraphBuilder, Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.facts.dims import Dim, Dims

from jax2onnx_core.lowering._dim_lowerer import DimLowerer
from jax2onnx_core.lowering._model_state import ModelState

__all__ = ["Scope", "ScopeBuilder"]

_PROLOGUE = Origin(operation="dims")


class Scope:
    """The nodes of a main graph, a function or a subgraph while it is being built.

    A main graph or a function has a prologue: the arithmetic on dimensions, which depends on the graph's inputs only
    and goes first; subgraphs capture its values.
    """

    def __init__(self, state: ModelState, name: str, parent: Scope | None = None) -> None:
        self.state = state
        self.name = name
        self.parent = parent
        self.nodes: list[ir.Node] = []
        self.prologue: list[ir.Node] = []
        self.inputs: list[Value] = []
        self.subgraphs: list[Scope] = []
        self._dims: DimLowerer | None = None
        if parent is not None:
            self._dims = parent.dims
            parent.subgraphs.append(self)

    @property
    def dims(self) -> DimLowerer:
        """The dimension values of the main graph or function that this scope belongs to."""
        assert self._dims is not None, "a root scope gets its symbols before anything is lowered in it"
        return self._dims

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
        """The nodes, the prologue first."""
        return [*self.prologue, *self.nodes]

    def is_inside(self, other: Scope) -> bool:
        """Whether values of `other` can be used here."""
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other

    def mark(self) -> tuple[int, int]:
        """Position in the scope, for `roll_back`."""
        return len(self.nodes), len(self.subgraphs)

    def roll_back(self, mark: tuple[int, int] = (0, 0)) -> list[Value]:
        """Forget the nodes and subgraphs since `mark`, and their uses of other values; the values that are gone."""
        nodes, subgraphs = mark
        gone = [output for node in self.nodes[nodes:] for output in node.outputs]
        for node in self.nodes[nodes:]:
            for i in range(len(node.inputs)):
                node.replace_input_with(i, None)
        for subgraph in self.subgraphs[subgraphs:]:
            gone += subgraph.roll_back()
        del self.nodes[nodes:], self.subgraphs[subgraphs:]
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
        return self.scope.dims.scalar(dim)

    def shape(self, dims: Sequence[Dim]) -> Value:
        """Dimensions as an int64 vector."""
        return self.scope.dims.shape(dims)

    def is_positive(self, dim: Dim) -> bool:
        """Whether a dimension is at least 1 for all values of its symbols."""
        return self._state.notation.bounds(dim)[0] > 0
