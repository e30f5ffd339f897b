"""Lowering with a record of which values hold which results, and the same results as JAX computes them."""

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
from jax2onnx_core.lowering._scope import Scope
from jax2onnx_core.lowering._trail import Body, Step, Trail
from jax2onnx_core.lowering.context import Context
from jax2onnx_core.lowering.engine import Engine

__all__ = ["RecordingEngine", "results_of"]


class RecordingEngine(Engine):
    """An engine that keeps a trail."""

    @functools.cached_property
    def trail(self) -> Trail:
        """The record."""
        return Trail()

    def lower_jaxpr(self, scope: Scope, jaxpr: Jaxpr, operands: Sequence[Value], origin: Origin) -> list[Value]:
        with self.trail.body_of(jaxpr, scope, operands) as body:
            body.results = results = super().lower_jaxpr(scope, jaxpr, operands, origin)
        return results

    def lowered(self, ctx: Context, index: int, eqn: Equation, operands: list[Value], results: list[Value]) -> None:
        # Inside of a call whose results are typed otherwise, as those of a mapped one are, the equations have no value of their own.
        types = [v.aval for v in eqn.outvars]
        meanings = {
            k: v for k, v in eqn.params.items() if is_jaxpr(v) and [o.aval for o in open_jaxpr(v)[0].outvars] == types
        }
        source = EquationSource(*self.lowered_by(ctx), _compat.user_frame(eqn.source_info), ctx.origin.stack)
        self.trail.lowered(index, source, meanings, operands, results)


def results_of(
    body: Body, jaxpr: Jaxpr, operands: Sequence[jax.Array], visit: Callable[[Step, Sequence[jax.Array]], None]
) -> list[jax.Array]:
    """Evaluate a jaxpr equation by equation: its results; `visit` gets those of each step of `body`."""
    inner, consts = open_jaxpr(_compat.without_references(jaxpr))
    env = dict(zip((*inner.constvars, *inner.invars), (*consts, *operands), strict=True))

    def read(atom: Atom) -> jax.Array:
        return atom.val if is_literal(atom) else env[atom]

    for index, eqn in enumerate(inner.eqns):
        arrays, step = [read(v) for v in eqn.invars], body.steps.get(index)
        if step is not None and step.inner is not None:
            name, places, call = step.inner
            results = results_of(call, eqn.params[name], [arrays[i] for i in places], visit)
        else:
            with _compat.options_of(eqn):
                results = bind_primitive(eqn.primitive, eqn.params, *arrays)
            if step is not None:
                visit(step, results)
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in inner.outvars]
