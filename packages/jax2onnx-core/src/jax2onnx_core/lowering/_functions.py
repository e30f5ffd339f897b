"""ONNX functions: one body for calls that compute the same, weights and symbol values as inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Origin, numbered
from jax2onnx_graph.facts.dims import Dims

from jax2onnx_core.lowering._model_state import ModelState
from jax2onnx_core.lowering._scope import Scope, ScopeBuilder

__all__ = ["FunctionTable", "ValueType"]

#: The element type and the dimensions of a value.
ValueType = tuple[Dtype, Dims]


@dataclasses.dataclass(frozen=True)
class _FunctionBody:
    """A finished function: its name in its domain, the symbols whose values it takes after its operands."""

    name: str
    domain: str
    symbols: tuple[str, ...]
    function: ir.Function
    scope: Scope


class FunctionTable:
    """The functions of one model, found by domain, name and the fingerprint of their body."""

    def __init__(self, state: ModelState) -> None:
        self._state = state
        self._bodies: dict[tuple[str, str, Hashable], _FunctionBody] = {}
        self._names: set[tuple[str, str]] = set()

    @property
    def functions(self) -> list[ir.Function]:
        """The functions, in the order of their first call."""
        return [body.function for body in self._bodies.values()]

    def call(
        self, builder: ScopeBuilder, operands: Sequence[Value], types: tuple[Sequence[ValueType], Sequence[ValueType]],
        write: Callable[[Scope, Sequence[Value], Origin], Sequence[Value]], *, name: str, domain: str, fingerprint: Hashable,
    ) -> list[Value]:  # fmt: skip
        """A call of a function; the values of its results.

        Args:
          builder: where the call stands.
          operands: what the function is called with.
          types: those of its inputs and of its results.
          write: writes the body into a scope, from its inputs; the values of its results.
          name: what the function is called; a number is added for another body of the same name.
          domain: the domain of the name.
          fingerprint: equal for bodies that compute the same.
        """
        key = (domain, name, fingerprint)
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = self._build(self._unique(name, domain), domain, types[0], write)
        symbols = [builder.scope.symbol(s) for s in body.symbols]
        results = builder.op.several(
            body.name, *operands, *symbols, domain=domain, outputs=len(types[1]), dtype=[dtype for dtype, _ in types[1]]
        )
        for value, (_, dims) in zip(results, types[1], strict=True):
            builder.set_dims(value, dims)
        return list(results)

    def mark(self) -> int:
        """Number of functions, for `roll_back`."""
        return len(self._bodies)

    def roll_back(self, mark: int) -> None:
        """Forget the functions since `mark`, and their uses of constants."""
        for key in list(self._bodies)[mark:]:
            body = self._bodies.pop(key)
            body.scope.roll_back()
            self._names.discard((body.domain, body.name))

    def _unique(self, name: str, domain: str) -> str:
        free = next(found for found in numbered(name) if (domain, found) not in self._names)
        self._names.add((domain, free))
        return free

    def _build(
        self, name: str, domain: str, types: Sequence[ValueType],
        write: Callable[[Scope, Sequence[Value], Origin], Sequence[Value]],
    ) -> _FunctionBody:  # fmt: skip
        state, scope, origin = self._state, Scope(self._state, name), Origin(stack=name)
        inputs = [state.new_value(f"{name}.in{i}", dtype, dims) for i, (dtype, dims) in enumerate(types)]
        scope.define_symbols(lambda symbol: state.new_value(f"{name}.{symbol}", np.dtype(np.int64), (1,)))
        outputs = scope.own_outputs(write(scope, inputs, origin), origin)
        taken = scope.dims.used_symbols
        graph = ir.Graph(
            [*inputs, *taken.values()], outputs, nodes=scope.all_nodes(), name=name, opset_imports={"": state.opset}
        )
        return _FunctionBody(name, domain, tuple(taken), ir.Function(domain, name, graph=graph, attributes=()), scope)
