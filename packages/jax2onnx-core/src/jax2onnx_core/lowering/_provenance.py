"""`ProvenanceEngine` records which values hold the results of which equations."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_runtime.bisection import EquationSource

from jax2onnx_core.jax_types import Equation, Jaxpr
from jax2onnx_core.jaxprs import is_jaxpr, open_jaxpr
from jax2onnx_core.lowering._engine import Engine
from jax2onnx_core.lowering._lowered_equations import EquationRecorder
from jax2onnx_core.lowering._scope import Scope
from jax2onnx_core.lowering.context import Context

__all__ = ["ProvenanceEngine"]


class ProvenanceEngine(Engine):
    """An engine that records which values hold the results of which equations."""

    @functools.cached_property
    def recorder(self) -> EquationRecorder:
        """The record."""
        return EquationRecorder()

    def lower_jaxpr(self, scope: Scope, jaxpr: Jaxpr, operands: Sequence[Value], origin: Origin) -> list[Value]:
        with self.recorder.lowering(jaxpr, scope, operands) as record:
            record.results = results = super().lower_jaxpr(scope, jaxpr, operands, origin)
        return results

    def lowered(self, ctx: Context, index: int, eqn: Equation, operands: list[Value], results: list[Value]) -> None:
        # Inside of a call whose results are typed otherwise, as those of a mapped one are, the equations have no value of their own.
        types = [v.aval for v in eqn.outvars]
        calls = {
            k: v for k, v in eqn.params.items() if is_jaxpr(v) and [o.aval for o in open_jaxpr(v)[0].outvars] == types
        }
        source = EquationSource(*self.lowered_by(ctx), self.place_of(eqn), ctx.origin.stack)
        self.recorder.lowered(index, source, calls, operands, results)
