"""Sums over the steps of a scan: products that a step only adds to its carry are one product of all steps, behind the scan.

The gradients of weights that a recurrence shares between its steps are such sums.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import jax
from jax import lax
from jax2onnx_core import Aval, Jaxpr
from jax2onnx_core.jax_types import Equation, Var
from jax2onnx_core.jaxprs import bind_equation, defines_sizes, is_literal, open_jaxpr, struct

from jax2onnx_lax._equations import dependents, evaluate, needed, value_of, variables
from jax2onnx_lax.control_flow._hoisting import added, elements

__all__ = ["sums_behind"]

_LINEAR = frozenset({"reduce_sum", "reshape", "squeeze", "transpose"})
_TERMS = frozenset({"dot_general", "reduce_sum"})


@dataclasses.dataclass(frozen=True)
class _Sum:
    """A value of the carry that is only added to.

    Attributes:
      position: its position in the carry.
      term: the equation that computes what a step adds: a `dot_general` or a `reduce_sum`.
      views: the linear equations from the result of `term` to the summand.
    """

    position: int
    term: Equation
    views: Sequence[Equation]

    def operands(self) -> list[Var]:
        """The variables of which the term is computed."""
        return variables(self.term.invars)

    def total(self, rows: Sequence[jax.Array]) -> jax.Array:
        """The sum of all steps, of operands stacked along the steps."""
        if self.term.primitive.name == "reduce_sum":
            total = rows[0].sum((0, *(axis + 1 for axis in self.term.params["axes"])), dtype=rows[0].dtype)
        else:
            contracted, batch = (
                [[axis + 1 for axis in axes] for axes in pair] for pair in self.term.params["dimension_numbers"]
            )
            numbers = (tuple((0, *axes) for axes in contracted), tuple(map(tuple, batch)))
            total = self.term.primitive.bind(*rows, **{**self.term.params, "dimension_numbers": numbers})
        for view in self.views:
            (total,) = bind_equation(view, [total])
        return total


def sums_behind(
    jaxpr: Jaxpr, num_consts: int, num_carry: int, operands: Sequence[Aval], *, reverse: bool, unroll: int
) -> Jaxpr | None:
    """A scan with its sums of products behind it, as a jaxpr from its operands to its results; None where there are none.

    What the products are computed of is held for all steps then, so it is at most as large as what is held anyway. One product over
    all steps takes a fraction of the time of one per step, and the sum is not copied from step to step.

    Args:
      jaxpr: the body.
      num_consts: the number of its operands that are constants; they come first.
      num_carry: the number of operands that are the carry; the slices of the inputs follow.
      operands: the avals of the scan's operands.
      reverse: whether the last step comes first.
      unroll: how many steps JAX would write at once.
    """
    inner, values = open_jaxpr(jaxpr)
    if any(eqn.effects or defines_sizes(eqn) for eqn in inner.eqns):
        return None
    sums = _sums(inner.eqns, inner.invars[num_consts:], inner.outvars, num_carry)
    slices, results = inner.invars[num_consts + num_carry :], inner.outvars[num_carry:]
    products = [one for one in sums if one.term.primitive.name == "dot_general"]
    held = [v for v in dict.fromkeys(v for one in products for v in one.operands()) if v not in slices]
    if not products or sum(elements(v.aval) for v in held) > sum(
        elements(v.aval) for v in [*slices, *variables(results)]
    ):
        return None
    behind = {one.position: one for one in sums if all(v in held or v in slices for v in one.operands())}
    stay = [k for k in range(num_carry) if k not in behind]
    wanted = [*(inner.outvars[k] for k in stay), *results, *held]
    equations, invars = needed(inner.eqns, wanted), inner.invars

    def summed(*whole: jax.Array) -> list[jax.Array]:
        consts = dict(zip([*inner.constvars, *invars[:num_consts]], [*values, *whole[:num_consts]], strict=True))
        init, xs = whole[num_consts : num_consts + num_carry], whole[num_consts + num_carry :]

        def step(states: list[jax.Array], row: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
            given = dict(zip([*(invars[num_consts + k] for k in stay), *slices], [*states, *row], strict=True))
            made = evaluate(equations, {**consts, **given})
            new = [value_of(v, made) for v in wanted]
            return new[: len(stay)], new[len(stay) :]

        last, stacked = lax.scan(step, [init[k] for k in stay], xs, reverse=reverse, unroll=unroll)
        rows = {**dict(zip(slices, xs, strict=True)), **dict(zip(held, stacked[len(results) :], strict=True))}
        carry = dict(zip(stay, last, strict=True))
        carry |= {k: init[k] + one.total([rows[v] for v in one.operands()]) for k, one in behind.items()}
        return [*(carry[k] for k in range(num_carry)), *stacked[: len(results)]]

    return jax.make_jaxpr(summed)(*map(struct, operands))


def _sums(equations: Sequence[Equation], invars: Sequence[Var], outvars: Sequence[Var], num_carry: int) -> list[_Sum]:
    """The sums among the carry, which comes first in the variables `invars` that differ from step to step."""
    made_by = {var: eqn for eqn in equations for var in eqn.outvars}
    reads = collections.Counter(variables([*(v for eqn in equations for v in eqn.invars), *outvars]))
    varying = dependents(equations, invars)
    found = []
    for position, (old, new) in enumerate(zip(invars[:num_carry], outvars[:num_carry], strict=True)):
        if is_literal(new) or reads[old] != 1 or reads[new] != 1:
            continue
        views, term = _term(made_by, added(made_by, old, new))
        if term is not None and all(not is_literal(v) and v in varying for v in term.invars):
            found.append(_Sum(position, term, views))
    return found


def _term(made_by: Mapping[Var, Equation], summand: Var | None) -> tuple[list[Equation], Equation | None]:
    """The linear equations that give a summand, and the sum or product before them; None where there is none."""
    views: list[Equation] = []
    term = None if summand is None else made_by.get(summand)
    while term is not None and term.primitive.name in _LINEAR and len(term.invars) == 1:
        inner = made_by.get(variables(term.invars)[0])
        if term.primitive.name in _TERMS and (inner is None or inner.primitive.name not in _LINEAR | _TERMS):
            break
        views.insert(0, term)
        term = inner
    return views, term if term is not None and term.primitive.name in _TERMS else None
