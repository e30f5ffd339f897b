"""`parted`: a jaxpr in two parts, the first of which computes the last result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import jax
from jax2onnx_core import Jaxpr
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import bind_equation, is_literal, open_jaxpr, struct

from jax2onnx_lax._called import is_batchable

__all__ = ["parted"]


def parted(jaxpr: Jaxpr) -> tuple[Jaxpr, Jaxpr] | None:
    """The part that computes the last result, and the rest, which computes the others; None where the last result takes a loop.

    The results of the first part are what the second one reads of it, then the last result; the operands of the second part are those
    of the jaxpr, then what it reads.
    """
    inner, arrays = open_jaxpr(jaxpr)
    *others, last = inner.outvars
    first = _needed(inner.eqns, [last])
    if not all(map(is_batchable, first)):
        return None
    made = {v for eqn in first for v in eqn.outvars}
    rest = [eqn for eqn in _needed(inner.eqns, others) if not made.issuperset(eqn.outvars)]
    read = [v for v in _variables(rest, others) if v in made]
    constants = dict(zip(inner.constvars, arrays, strict=True))
    return (
        _computing(first, inner.invars, [*read, last], constants),
        _computing(rest, [*inner.invars, *read], others, constants),
    )


def _needed(equations: Sequence[Equation], results: Sequence[Atom]) -> list[Equation]:
    """The equations that results take."""
    wanted, found = {v for v in results if not is_literal(v)}, []
    for eqn in reversed(equations):
        if not wanted.isdisjoint(eqn.outvars):
            found.append(eqn)
            wanted.update(v for v in eqn.invars if not is_literal(v))
    return found[::-1]


def _variables(equations: Sequence[Equation], results: Sequence[Atom]) -> Collection[Var]:
    """The variables that equations read, and those that are results."""
    atoms = [*(v for eqn in equations for v in eqn.invars), *results]
    return dict.fromkeys(v for v in atoms if not is_literal(v))


def _computing(
    equations: Sequence[Equation], operands: Sequence[Var], results: Sequence[Atom], constants: Mapping[Var, jax.Array]
) -> Jaxpr:
    def computed(*values: jax.Array) -> list[jax.Array]:
        env = {**constants, **dict(zip(operands, values, strict=True))}
        for eqn in equations:
            read = [v.val if is_literal(v) else env[v] for v in eqn.invars]
            env.update(zip(eqn.outvars, bind_equation(eqn, read), strict=True))
        return [v.val if is_literal(v) else env[v] for v in results]

    return jax.make_jaxpr(computed)(*(struct(v.aval) for v in operands))
