"""`Steps`: the body of a scan as one list of equations, any part of which can be computed for all steps at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import jax
from jax2onnx_core import Dim, Jaxpr
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import bind_equation, is_literal, open_jaxpr, struct

from jax2onnx_lax._called import called_equations, is_batchable, plain_call
from jax2onnx_lax._equations import dependents, evaluate, needed, read_by, value_of
from jax2onnx_lax.recurrence._errors import UnsuitableError

__all__ = ["Steps"]

_SUMS = frozenset({"add", "sub", "add_any"})
#: Activations, or parts of them.
_BOUNDED = frozenset({"tanh", "logistic", "exp", "max"})


@dataclasses.dataclass(frozen=True)
class Steps:
    """The body of a scan.

    Attributes:
      constants: its constant variables, with their arrays.
      consts, carry, rows: its input variables; those of the carry that no step changes are constants.
      equations: its equations; those that call others with the carry are replaced by what they call.
      new_carry, results: its result variables, which may be literals.
      given: the places of the constants and of the carry among the operands.
      on_carry: the variables that depend on the carry.
    """

    constants: Mapping[Var, jax.Array]
    consts: Sequence[Var]
    carry: Sequence[Var]
    rows: Sequence[Var]
    equations: Sequence[Equation]
    new_carry: Sequence[Atom]
    results: Sequence[Atom]
    on_carry: Collection[Var]
    given: tuple[Sequence[int], Sequence[int]]

    @staticmethod
    def from_jaxpr(jaxpr: Jaxpr, num_consts: int, num_carry: int) -> Steps:
        """The steps of a body.

        Args:
          jaxpr: the body.
          num_consts: the number of its operands that are constants; they come first.
          num_carry: the number of operands that are the carry, and of results that are the next one.
        """
        first, last = num_consts, num_consts + num_carry
        inner, arrays = open_jaxpr(jaxpr)
        if any(_is_call(eqn, dependents(inner.eqns, inner.invars[first:last])) for eqn in inner.eqns):
            traced = jax.make_jaxpr(lambda *xs: _evaluated(jaxpr, xs, range(first, last)))
            inner, arrays = open_jaxpr(traced(*(struct(v.aval) for v in inner.invars)))
        invars, outvars = inner.invars, inner.outvars
        changed = [k for k in range(num_carry) if invars[first + k] is not outvars[k]]
        places = [i for i in range(last) if i - first not in changed], [first + k for k in changed]
        carry = [invars[i] for i in places[1]]
        return Steps(
            dict(zip(inner.constvars, arrays, strict=True)), [invars[i] for i in places[0]], carry, invars[last:], inner.eqns,
            [outvars[k] for k in changed], outvars[num_carry:], dependents(inner.eqns, carry), places,
        )  # fmt: skip

    @property
    def repeated(self) -> set[Var]:
        """The carry and the rows that sums have twice, such as h in h + z·(n - h), where infinities cancel to NaN."""
        found, within = set[Var](), {v: {v} for v in (*self.carry, *self.rows)}
        for eqn in self.equations:
            parts = [within.get(v, set()) for v in eqn.invars if not is_literal(v)]
            if eqn.primitive.name in _SUMS and len(parts) == 2:
                found |= parts[0] & parts[1]
            is_bounded = eqn.primitive.name in _BOUNDED or called_equations(eqn)
            within.update((v, set() if is_bounded else set().union(*parts)) for v in eqn.outvars)
        return found

    def for_all_steps(self, wanted: Sequence[Atom], given: Sequence[Var], length: Dim) -> Jaxpr:
        """A jaxpr from the constants and from `given` variables in all steps, `[length, …]`, to `wanted` ones in all steps.

        Raises:
          UnsuitableError: the wanted variables depend on more than these, or are not computed for all steps at once.
        """
        known = {*self.constants, *self.consts, *given}
        equations = needed(self.equations, wanted, known)
        if not {*self.carry, *self.rows}.difference(known).isdisjoint(read_by(equations, wanted)):
            raise UnsuitableError("it collects something else than the hidden state")
        if not all(map(is_batchable, equations)):
            raise UnsuitableError("what it collects is not computed for all steps at once")

        def one_step(consts: Sequence[jax.Array], rows: Sequence[jax.Array]) -> list[jax.Array]:
            values = dict(zip([*self.consts, *given], [*consts, *rows], strict=True))
            env = evaluate(equations, {**self.constants, **values})
            return [value_of(v, env) for v in wanted]

        stacks = [jax.ShapeDtypeStruct((length, *v.aval.shape), v.aval.dtype) for v in given]
        batched = jax.vmap(one_step, (None, 0), axis_size=length)
        return jax.make_jaxpr(lambda *xs: batched(xs[: len(self.consts)], xs[len(self.consts) :]))(
            *(struct(v.aval) for v in self.consts), *stacks
        )


def _is_call(eqn: Equation, on_carry: Collection[Var]) -> bool:
    return plain_call(eqn) is not None and any(v in on_carry for v in eqn.invars if not is_literal(v))


def _evaluated(jaxpr: Jaxpr, operands: Sequence[jax.Array], carry: Collection[int]) -> list[jax.Array]:
    """The results of a jaxpr, without the calls of what depends on these of its operands."""
    inner, consts = open_jaxpr(jaxpr)
    on_carry = dependents(inner.eqns, [inner.invars[i] for i in carry])
    env = dict(zip([*inner.constvars, *inner.invars], [*consts, *operands], strict=True))
    for eqn in inner.eqns:
        values = [value_of(v, env) for v in eqn.invars]
        called = plain_call(eqn) if _is_call(eqn, on_carry) else None
        if called is None:
            results = bind_equation(eqn, values)
        else:
            places = [i for i, v in enumerate(eqn.invars) if not is_literal(v) and v in on_carry]
            results = _evaluated(called, values, places)
        env.update(zip(eqn.outvars, results, strict=True))
    return [value_of(v, env) for v in inner.outvars]
