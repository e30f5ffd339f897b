"""Lists of equations: their results one after another, which of them depend on variables, and which of them results need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import jax
from jax2onnx_core import Jaxpr
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import bind_equation, is_literal, struct

__all__ = ["Env", "dependents", "evaluate", "jaxpr_of", "needed", "read_by", "value_of", "variables"]

#: The values of variables.
Env = Mapping[Var, jax.Array]


def variables(atoms: Iterable[Atom]) -> list[Var]:
    """Those of some operands that are no literals."""
    return [v for v in atoms if not is_literal(v)]


def value_of(atom: Atom, env: Env) -> jax.Array:
    """The value of a variable or literal."""
    value: jax.Array = atom.val if is_literal(atom) else env[atom]
    return value


def evaluate(equations: Iterable[Equation], env: Env) -> dict[Var, jax.Array]:
    """The values of all variables after equations, evaluated or traced, from those that they read."""
    values = dict(env)
    for eqn in equations:
        values.update(zip(eqn.outvars, bind_equation(eqn, [value_of(v, values) for v in eqn.invars]), strict=True))
    return values


def read_by(equations: Iterable[Equation], results: Iterable[Atom]) -> list[Var]:
    """The variables that equations read, or that are results, each once."""
    return [*dict.fromkeys(variables([*(v for eqn in equations for v in eqn.invars), *results]))]


def dependents(equations: Iterable[Equation], sources: Iterable[Var]) -> set[Var]:
    """The variables `sources` and all that are computed from them."""
    found = set(sources)
    for eqn in equations:
        if not found.isdisjoint(variables(eqn.invars)):
            found.update(eqn.outvars)
    return found


def needed(equations: Sequence[Equation], results: Iterable[Atom], given: Iterable[Var] = ()) -> list[Equation]:
    """The equations that results are computed by, in their order, where the variables `given` are known."""
    known, found = set(given), list[Equation]()
    wanted = set(variables(results)) - known
    for eqn in reversed(equations):
        if not wanted.isdisjoint(eqn.outvars):
            found.append(eqn)
            wanted.update(v for v in variables(eqn.invars) if v not in known)
    return found[::-1]


def jaxpr_of(equations: Sequence[Equation], operands: Sequence[Var], results: Sequence[Atom], constants: Env) -> Jaxpr:
    """A jaxpr from operands to results by these equations."""

    def computed(*values: jax.Array) -> list[jax.Array]:
        env = evaluate(equations, {**constants, **dict(zip(operands, values, strict=True))})
        return [value_of(v, env) for v in results]

    return jax.make_jaxpr(computed)(*(struct(v.aval) for v in operands))
