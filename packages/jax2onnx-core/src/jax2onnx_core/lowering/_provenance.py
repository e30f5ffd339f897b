"""`ProvenanceEngine` records which values hold the results of which equations; `evaluate` computes these results in JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Origin
from jax2onnx_runtime.bisection import EquationSource

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Atom, Equation, Jaxpr
from jax2onnx_core.jaxprs import bind_primitive, is_jaxpr, is_literal, open_jaxpr
from jax2onnx_core.lowering._engine import Engine
from jax2onnx_core.lowering._lowered_equations import EquationRecorder, LoweredEquation, LoweredJaxpr
from jax2onnx_core.lowering._scope import Scope
from jax2onnx_core.lowering.context import Context

__all__ = ["ProvenanceEngine", "evaluate"]


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


def evaluate(
    jaxpr: Jaxpr, operands: Sequence[jax.Array], lowered: LoweredJaxpr,
    visit: Callable[[LoweredEquation, Sequence[jax.Array]], None],
) -> list[jax.Array]:  # fmt: skip
    """Evaluate a jaxpr equation by equation.

    Args:
      jaxpr: the jaxpr.
      operands: the arrays for its variables.
      lowered: what became of its equations.
      visit: called for each lowered equation with its results.

    Returns:
      The results of the jaxpr.
    """
    inner, consts = open_jaxpr(_compat.without_references(jaxpr))
    env = dict(zip((*inner.constvars, *inner.invars), (*consts, *operands), strict=True))

    def read(atom: Atom) -> jax.Array:
        return atom.val if is_literal(atom) else env[atom]

    for index, eqn in enumerate(inner.eqns):
        arrays, equation = [read(v) for v in eqn.invars], lowered.equations.get(index)
        if equation is not None and equation.call is not None:
            name, places, call = equation.call
            results = evaluate(eqn.params[name], [arrays[i] for i in places], call, visit)
        else:
            with _compat.options_of(eqn):
                results = bind_primitive(eqn.primitive, eqn.params, *arrays)
            if equation is not None:
                visit(equation, results)
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in inner.outvars]
