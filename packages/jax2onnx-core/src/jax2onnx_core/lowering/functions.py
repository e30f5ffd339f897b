"""ONNX functions: one body for structurally equal calls, weights and symbol values as inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax2onnx_graph import ir

from jax2onnx_core import _compat
from jax2onnx_core.lowering.fingerprint import structure_of
from jax2onnx_core.lowering.physical import physical
from jax2onnx_core.lowering.scope import Scope

if TYPE_CHECKING:
    from jax2onnx_core.lowering.context import Context
    from jax2onnx_core.lowering.engine import Engine

__all__ = ["FunctionTable"]


@dataclasses.dataclass(frozen=True)
class _Body:
    """A finished function: its name in its domain, the symbols whose values it takes after its operands."""

    name: str
    domain: str
    symbols: tuple[str, ...]
    function: ir.Function


class FunctionTable:
    """The functions of one model, found by domain, name and the structure of their body."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bodies: dict[Any, _Body] = {}
        self._names: dict[tuple[str, str], int] = {}

    @property
    def functions(self) -> list[ir.Function]:
        return [body.function for body in self._bodies.values()]

    def call(
        self, ctx: Context, jaxpr: Any, operands: Sequence[ir.Value], name: str, domain: str
    ) -> tuple[ir.Value, ...]:
        key = (domain, name, structure_of(jaxpr))
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = self._build(jaxpr, self._unique(name, domain), domain)
        symbols = [ctx.dim_vector(s) for s in body.symbols]
        avals = _compat.jaxpr_of(jaxpr).outvars
        results = ctx.op(
            body.name, *operands, *symbols, domain=domain, outputs=len(avals),
            dtype=[physical(v.aval)[0] for v in avals],
        )  # fmt: skip
        results = (results,) if isinstance(results, ir.Value) else tuple(results)
        for value, var in zip(results, avals, strict=True):
            self._engine.set_dims(value, physical(var.aval)[1])
        return results

    def _unique(self, name: str, domain: str) -> str:
        count = self._names.get((domain, name), 0)
        self._names[domain, name] = count + 1
        return f"{name}_{count}" if count else name

    def _build(self, jaxpr: Any, name: str, domain: str) -> _Body:
        engine = self._engine
        scope = Scope(name, isolated=True)
        inputs = [
            engine.new_value(f"{name}.in{i}", *physical(var.aval))
            for i, var in enumerate(_compat.jaxpr_of(jaxpr).invars)
        ]

        def symbol(symbol_name: str) -> ir.Value:
            return engine.new_value(f"{name}.{symbol_name}", np.dtype(np.int64), (1,))

        scope.dims = engine.dim_lowerer(scope, symbol)
        outer = engine.names.enter(name, "")
        outputs = self._fresh(scope, engine.lower_jaxpr(scope, jaxpr, inputs))
        engine.names.leave(outer)
        taken = scope.dims.used_symbols
        graph = ir.Graph(
            [*inputs, *taken.values()], outputs, nodes=scope.all_nodes(), name=name, opset_imports={"": engine.opset}
        )
        return _Body(name, domain, tuple(taken), ir.Function(domain, name, graph=graph, attributes=()))

    def _fresh(self, scope: Scope, outputs: list[ir.Value]) -> list[ir.Value]:
        """Outputs that the body computes itself, each once."""
        own = {v for node in scope.all_nodes() for v in node.outputs}
        result: list[ir.Value] = []
        for value in outputs:
            if value not in own or value in result:
                value = self._engine.identity(scope, value)
            result.append(value)
        return result
