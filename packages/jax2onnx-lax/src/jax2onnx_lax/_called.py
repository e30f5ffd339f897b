"""Equations that call others."""

from __future__ import annotations

from jax2onnx_core.jax_types import Equation, Jaxpr
from jax2onnx_core.jaxprs import is_jaxpr, open_jaxpr

from jax2onnx_lax.random._equations import draws_otherwise_if_batched

__all__ = ["CONTROL_FLOW", "called_equations", "called_jaxpr", "is_batchable", "plain_call"]

#: Equations that are calls of their jaxpr and nothing more: no rule of a derivative, no operation of its own.
_PLAIN_CALLS = frozenset({"jit", "call", "closed_call", "eval_jaxpr", "remat2"})

#: Under vmap they do more than once what they do once, or loop until the last element is done.
CONTROL_FLOW = frozenset({"while", "scan", "cond"})


def called_jaxpr(eqn: Equation) -> Jaxpr | None:
    """The jaxpr that an equation calls once, with its last operands; None for others."""
    given = [value for value in eqn.params.values() if is_jaxpr(value)]
    if len(given) != 1 or eqn.primitive.name in CONTROL_FLOW:
        return None
    inner, _ = open_jaxpr(given[0])
    if len(inner.invars) > len(eqn.invars) or len(inner.outvars) != len(eqn.outvars):
        return None
    operands = eqn.invars[len(eqn.invars) - len(inner.invars) :]
    pairs = [*zip(inner.invars, operands, strict=True), *zip(inner.outvars, eqn.outvars, strict=True)]
    return given[0] if all(a.aval.shape == b.aval.shape for a, b in pairs) else None


def plain_call(eqn: Equation) -> Jaxpr | None:
    """The jaxpr of an equation that is nothing but a call, which may stand in its place; None for others."""
    return called_jaxpr(eqn) if eqn.primitive.name in _PLAIN_CALLS else None


def called_equations(eqn: Equation) -> list[Equation]:
    """The equations of the jaxprs among the params of an equation."""
    return [e for value in eqn.params.values() if is_jaxpr(value) for e in open_jaxpr(value)[0].eqns]


def is_batchable(eqn: Equation) -> bool:
    """Whether an equation is worth to be computed for all steps at once: there are no loops and branches in it."""
    if eqn.primitive.name in CONTROL_FLOW or eqn.effects or draws_otherwise_if_batched(eqn):
        return False
    return all(map(is_batchable, called_equations(eqn)))
