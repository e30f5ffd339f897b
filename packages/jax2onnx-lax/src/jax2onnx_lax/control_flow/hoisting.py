"""Taking out of a scan what needs no step before it: projections of the inputs become one matrix product."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax

from jax2onnx_lax._compat import bind_equation, is_drop_var, is_jaxpr, is_literal, open_jaxpr

__all__ = ["Hoisted", "hoist"]


@dataclasses.dataclass(frozen=True)
class Hoisted:
    """A scan taken apart.

    `before` computes, from the constants and the whole inputs of the scan, first values that are the
    same in every step, then values stacked along the steps. `body` is what remains of the body: its
    operands are the constants, those first values, the carry, and then the inputs of which `kept` gives the
    places, followed by the stacked values.
    """

    before: Any
    fixed: int
    body: Any
    kept: list[int]


def hoist(jaxpr: Any, num_consts: int, num_carry: int, operands: Sequence[Any]) -> Hoisted | None:
    """Take a scan's body apart; None if it multiplies no matrix by what comes from its inputs alone.

    `operands` are the avals of the scan's operands. One product of all steps' rows takes a fraction of the
    time of a product per step.
    """
    split = _Split.of(jaxpr, num_consts, num_carry)
    if not split.equations:
        return None
    consts, slices = split.consts, split.slices
    kept = [i for i, var in enumerate(slices) if var in split.read]
    whole = [*operands[:num_consts], *operands[num_consts + num_carry :]]
    inputs = [*consts, *split.fixed, *split.carry, *(slices[i] for i in kept), *split.stacked]

    def before(*values: Any) -> tuple[list[Any], list[Any]]:
        env = split.run(split.equations, [*consts, *slices], values)
        return [env[v] for v in split.fixed], [env[v] for v in split.stacked]

    def body(*values: Any) -> list[Any]:
        env = split.run(split.rest, inputs, values)
        return [v.val if is_literal(v) else env[v] for v in split.outvars]

    batched = jax.vmap(before, [None] * len(consts) + [0] * len(slices), (None, 0))
    traced = jax.make_jaxpr(batched)(*map(_struct, whole))
    return Hoisted(traced, len(split.fixed), jax.make_jaxpr(body)(*(_struct(v.aval) for v in inputs)), kept)


def _struct(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


@dataclasses.dataclass(frozen=True)
class _Split:
    """The equations of a body: those to take out (with what they need), and the rest."""

    consts: list[Any]
    carry: list[Any]
    slices: list[Any]
    closed_over: dict[Any, Any]
    equations: list[Any]
    rest: list[Any]
    outvars: list[Any]
    read: set[Any]
    fixed: list[Any]
    stacked: list[Any]

    @staticmethod
    def of(jaxpr: Any, num_consts: int, num_carry: int) -> _Split:
        inner, values = open_jaxpr(jaxpr)
        consts, carry = inner.invars[:num_consts], inner.invars[num_consts : num_consts + num_carry]
        slices = inner.invars[num_consts + num_carry :]
        made_by, carried, sliced = _dependences(inner, carry, slices)
        out = _with_ancestors(_products(inner, carried, sliced), made_by)
        equations = [eqn for eqn in inner.eqns if id(eqn) in out]
        rest = [eqn for eqn in inner.eqns if id(eqn) not in out]
        read = {v for eqn in rest for v in eqn.invars if not is_literal(v)}
        read |= {v for v in inner.outvars if not is_literal(v)}
        made = [v for eqn in equations for v in eqn.outvars if v in read]
        return _Split(
            list(consts), list(carry), list(slices), dict(zip(inner.constvars, values, strict=True)),
            equations, rest, list(inner.outvars), read,
            [v for v in made if v not in sliced], [v for v in made if v in sliced],
        )  # fmt: skip

    def run(self, equations: Sequence[Any], inputs: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
        """Evaluate equations on the values of the input variables; the values of all variables."""
        env = self.closed_over | dict(zip(inputs, values, strict=True))
        for eqn in equations:
            results = bind_equation(eqn, [v.val if is_literal(v) else env[v] for v in eqn.invars])
            env.update((v, r) for v, r in zip(eqn.outvars, results, strict=True) if not is_drop_var(v))
        return env


def _dependences(inner: Any, carry: Sequence[Any], slices: Sequence[Any]) -> tuple[dict[Any, Any], set[Any], set[Any]]:
    """Which equation makes each variable, and which variables depend on the carry and on the inputs."""
    made_by, carried, sliced = {}, set(carry), set(slices)
    for eqn in inner.eqns:
        read = {v for v in eqn.invars if not is_literal(v)}
        for var in eqn.outvars:
            made_by[var] = eqn
            if read & carried or eqn.effects:
                carried.add(var)
            if read & sliced:
                sliced.add(var)
    return made_by, carried, sliced


def _products(inner: Any, carried: set[Any], sliced: set[Any]) -> list[Any]:
    return [
        eqn for eqn in inner.eqns
        if _multiplies_matrices(eqn) and any(v in sliced and v not in carried for v in eqn.outvars)
    ]  # fmt: skip


def _multiplies_matrices(eqn: Any) -> bool:
    """Whether an equation is, or calls, a `dot_general`; loops and branches are left alone."""
    if eqn.primitive.name in ("dot_general", "while", "scan", "cond"):
        return bool(eqn.primitive.name == "dot_general")
    inner = [value for value in eqn.params.values() if is_jaxpr(value)]
    return any(_multiplies_matrices(e) for value in inner for e in open_jaxpr(value)[0].eqns)


def _with_ancestors(roots: Sequence[Any], made_by: dict[Any, Any]) -> set[int]:
    """The ids of equations and of all that they need."""
    found: set[int] = set()
    stack = list(roots)
    while stack:
        eqn = stack.pop()
        if id(eqn) not in found:
            found.add(id(eqn))
            stack += [made_by[v] for v in eqn.invars if not is_literal(v) and v in made_by]
    return found
