"""ONNX functions: one body for calls of equal jaxprs, weights and symbol values as inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.model_state import ModelState
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.build.scope import Scope

from jax2onnx_core.fingerprint import jaxpr_fingerprint
from jax2onnx_core.jaxprs import Jaxpr, open_jaxpr
from jax2onnx_core.lowering.context import Context
from jax2onnx_core.lowering.physical import physical_type

__all__ = ["FunctionTable"]

LowerJaxpr = Callable[[Scope, Jaxpr, Sequence[Value], Origin], list[Value]]


@dataclasses.dataclass(frozen=True)
class _Body:
    """A finished function: its name in its domain, the symbols whose values it takes after its operands."""

    name: str
    domain: str
    symbols: tuple[str, ...]
    function: ir.Function
    scope: Scope


class FunctionTable:
    """The functions of one model, found by domain, name and the fingerprint of their body."""

    def __init__(self, state: ModelState, lower_jaxpr: LowerJaxpr) -> None:
        self._state = state
        self._lower_jaxpr = lower_jaxpr
        self._bodies: dict[tuple[str, str, Hashable], _Body] = {}
        self._names: dict[tuple[str, str], int] = {}

    @property
    def functions(self) -> list[ir.Function]:
        """The functions, in the order of their first call."""
        return [body.function for body in self._bodies.values()]

    def call(self, ctx: Context, jaxpr: Jaxpr, operands: Sequence[Value], name: str, domain: str) -> list[Value]:
        """A call of the function whose body is the jaxpr; the values of its results."""
        key = (domain, name, jaxpr_fingerprint(jaxpr))
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = self._build(jaxpr, self._unique(name, domain), domain)
        symbols = [ctx.dim_vector(s) for s in body.symbols]
        types = [physical_type(var.aval) for var in open_jaxpr(jaxpr)[0].outvars]
        results = ctx.op.several(
            body.name, *operands, *symbols, domain=domain, outputs=len(types), dtype=[dtype for dtype, _ in types]
        )
        for value, (_, dims) in zip(results, types, strict=True):
            ctx.set_dims(value, dims)
        return list(results)

    def mark(self) -> int:
        """How many functions there are, for `roll_back`."""
        return len(self._bodies)

    def roll_back(self, mark: int) -> None:
        """Forget the functions since `mark`, and their uses of constants."""
        for key in list(self._bodies)[mark:]:
            self._bodies.pop(key).scope.roll_back()
            self._names[key[:2]] -= 1

    def _unique(self, name: str, domain: str) -> str:
        count = self._names.get((domain, name), 0)
        self._names[domain, name] = count + 1
        return f"{name}_{count}" if count else name

    def _build(self, jaxpr: Jaxpr, name: str, domain: str) -> _Body:
        state, scope, origin = self._state, Scope(self._state, name), Origin(stack=name)
        inputs = [
            state.new_value(f"{name}.in{i}", *physical_type(var.aval))
            for i, var in enumerate(open_jaxpr(jaxpr)[0].invars)
        ]
        scope.define_symbols(lambda symbol: state.new_value(f"{name}.{symbol}", np.dtype(np.int64), (1,)))
        outputs = scope.own_outputs(self._lower_jaxpr(scope, jaxpr, inputs, origin), origin)
        taken = scope.dims.used_symbols
        graph = ir.Graph(
            [*inputs, *taken.values()], outputs, nodes=scope.all_nodes(), name=name, opset_imports={"": state.opset}
        )
        return _Body(name, domain, tuple(taken), ir.Function(domain, name, graph=graph, attributes=()), scope)
