"""Taking matrix products out of a scan: those of its inputs alone become one product over all iterations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
from jax2onnx_core import Aval, Jaxpr
from jax2onnx_core.jax_types import Equation, Var
from jax2onnx_core.jaxprs import is_drop_var, is_jaxpr, is_literal, open_jaxpr, struct

from jax2onnx_lax._compat import bind_equation

__all__ = ["Hoisted", "hoist"]


@dataclasses.dataclass(frozen=True)
class Hoisted:
    """A scan divided into a computation before it and a smaller body.

    Attributes:
      before: a jaxpr from the constants and the whole inputs of the scan to `num_invariant` values that are the same
        in every iteration, then values stacked along the iterations.
      num_invariant: see `before`.
      body: the rest of the body; its operands are the constants, the invariant values, the carry, those inputs whose
        positions `kept` lists, and the stacked values.
      kept: the positions of the inputs that the rest of the body still reads.
    """

    before: Jaxpr
    num_invariant: int
    body: Jaxpr
    kept: list[int]


def hoist(jaxpr: Jaxpr, num_consts: int, num_carry: int, operands: Sequence[Aval]) -> Hoisted | None:
    """Divide the body of a scan; None if it has no matrix product that depends on its inputs but not on its carry.

    One product of all rows takes a fraction of the time of a product per iteration.

    Args:
      jaxpr: the body.
      num_consts: how many of its operands are constants; they come first.
      num_carry: how many of them are the carry; the slices of the inputs follow.
      operands: the avals of the scan's operands.
    """
    split = _split(jaxpr, num_consts, num_carry)
    if not split.before:
        return None
    whole = [*operands[:num_consts], *operands[num_consts + num_carry :]]
    kept = [i for i, var in enumerate(split.slices) if var in split.read]
    invars = [*split.consts, *split.invariant, *split.carry, *(split.slices[i] for i in kept), *split.stacked]

    def before(*values: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
        env = split.evaluate(split.before, [*split.consts, *split.slices], values)
        return [env[v] for v in split.invariant], [env[v] for v in split.stacked]

    def body(*values: jax.Array) -> list[jax.Array]:
        env = split.evaluate(split.rest, invars, values)
        return [v.val if is_literal(v) else env[v] for v in split.outvars]

    batched = jax.vmap(before, [None] * len(split.consts) + [0] * len(split.slices), (None, 0))
    traced = jax.make_jaxpr(batched)(*map(struct, whole))
    return Hoisted(traced, len(split.invariant), jax.make_jaxpr(body)(*(struct(v.aval) for v in invars)), kept)


@dataclasses.dataclass(frozen=True)
class _Split:
    """A scan's body with its equations in two groups.

    Attributes:
      consts, carry, slices: its input variables.
      closed_over: the values of its constant variables.
      before, rest: the equations to take out (matrix products and all that they need), and the others.
      outvars: its result variables.
      read: the variables that `rest` and the results read.
      invariant, stacked: the variables that `before` computes and that are read after it, the same in every iteration
        or depending on the inputs.
    """

    consts: Sequence[Var]
    carry: Sequence[Var]
    slices: Sequence[Var]
    closed_over: dict[Var, jax.Array]
    before: Sequence[Equation]
    rest: Sequence[Equation]
    outvars: Sequence[Var]
    read: set[Var]
    invariant: Sequence[Var]
    stacked: Sequence[Var]

    def evaluate(
        self, equations: Sequence[Equation], invars: Sequence[Var], values: Sequence[jax.Array]
    ) -> dict[Var, jax.Array]:
        """The values of all variables after these equations, given those of the input variables."""
        env = self.closed_over | dict(zip(invars, values, strict=True))
        for eqn in equations:
            results = bind_equation(eqn, [v.val if is_literal(v) else env[v] for v in eqn.invars])
            env.update((v, r) for v, r in zip(eqn.outvars, results, strict=True) if not is_drop_var(v))
        return env


def _split(jaxpr: Jaxpr, num_consts: int, num_carry: int) -> _Split:
    """Find the matrix products that depend on the inputs but not on the carry, and what they need."""
    inner, values = open_jaxpr(jaxpr)
    consts, carry = inner.invars[:num_consts], inner.invars[num_consts : num_consts + num_carry]
    slices = inner.invars[num_consts + num_carry :]
    # What an effect gives may differ from iteration to iteration, as the carry does.
    effects = [v for eqn in inner.eqns if eqn.effects for v in eqn.outvars]
    on_carry, on_slices = _dependents(inner.eqns, [*carry, *effects]), _dependents(inner.eqns, slices)
    products = [eqn for eqn in inner.eqns if _multiplies_matrices(eqn) and _any_in(eqn.outvars, on_slices - on_carry)]
    out = _with_ancestors(products, inner.eqns)
    before = [eqn for eqn in inner.eqns if id(eqn) in out]
    rest = [eqn for eqn in inner.eqns if id(eqn) not in out]
    read = {v for v in [*(v for eqn in rest for v in eqn.invars), *inner.outvars] if not is_literal(v)}
    made = [v for eqn in before for v in eqn.outvars if v in read]
    return _Split(
        consts, carry, slices, dict(zip(inner.constvars, values, strict=True)), before, rest, inner.outvars, read,
        invariant=[v for v in made if v not in on_slices], stacked=[v for v in made if v in on_slices],
    )  # fmt: skip


def _dependents(equations: Sequence[Equation], sources: Sequence[Var]) -> set[Var]:
    """The variables `sources` and all that are computed from them."""
    found = set(sources)
    for eqn in equations:
        if _any_in(eqn.invars, found):
            found.update(eqn.outvars)
    return found


def _any_in(variables: Sequence[Var], among: set[Var]) -> bool:
    return any(v in among for v in variables if not is_literal(v))


def _multiplies_matrices(eqn: Equation) -> bool:
    """Whether an equation is, or calls, a `dot_general`; loops and branches are left alone."""
    if eqn.primitive.name in ("dot_general", "while", "scan", "cond"):
        return bool(eqn.primitive.name == "dot_general")
    inner = [value for value in eqn.params.values() if is_jaxpr(value)]
    return any(_multiplies_matrices(e) for value in inner for e in open_jaxpr(value)[0].eqns)


def _with_ancestors(roots: Sequence[Equation], equations: Sequence[Equation]) -> set[int]:
    """The ids of `roots` and of all equations on which they depend."""
    needed = {v for eqn in roots for v in eqn.invars if not is_literal(v)}
    found = {id(eqn) for eqn in roots}
    for eqn in reversed(equations):
        if id(eqn) in found or _any_in(eqn.outvars, needed):
            found.add(id(eqn))
            needed.update(v for v in eqn.invars if not is_literal(v))
    return found
