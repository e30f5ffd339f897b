"""Loop fission of a scan: equations that read only its inputs run before it, those that only its results need after it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Aval, Jaxpr
from jax2onnx_core.jax_types import Equation, Var
from jax2onnx_core.jaxprs import defines_sizes, is_literal, is_static, open_jaxpr, struct

from jax2onnx_lax._called import CONTROL_FLOW, called_equations, is_batchable
from jax2onnx_lax._equations import Env, dependents, evaluate, needed, read_by, value_of, variables
from jax2onnx_lax.control_flow._carried import any_narrow
from jax2onnx_lax.random._equations import draws_otherwise_if_batched

__all__ = ["Hoisted", "added", "adds_weighted_products", "elements", "hoist"]

# For larger rows, work on all steps at once is no faster than step by step: what a step saves is the call of a few
# operators, and tensors that fit into the cache of a core no longer do.
_MOST_ELEMENTS_PER_STEP = 2048
# So many times the elements of what it is computed from may a value have to be held for all steps.
_MOST_GROWTH = 4
# A symbolic dimension counts as this number.
_SYMBOLIC = 8
# They take rows of a table, which have no more elements than other operands of what is done with them.
_LOOKUPS = frozenset({"gather", "dynamic_slice"})
# They are taken in the step that computes a complex number, which then need not be held as a pair.
_PARTS = frozenset({"real", "imag"})


@dataclasses.dataclass(frozen=True)
class Hoisted:
    """A scan divided into a computation before it, a smaller body, and a computation after it.

    Attributes:
      before: a jaxpr from the constants and the whole inputs of the scan to `num_invariant` values that are the same
        in every iteration, then values stacked along the iterations.
      num_invariant: see `before`.
      body: the rest of the body; its operands are the constants, the invariant values, the carry, those inputs whose
        positions `kept` lists, and the stacked values; its results are the next carry, then what `after` reads of it.
      kept: the positions of the inputs that the rest of the body still reads.
      after: a jaxpr from the constants, the results of `before`, the whole inputs, and the stacked results of `body`, to those
        of the scan.
    """

    before: Jaxpr
    num_invariant: int
    body: Jaxpr
    kept: list[int]
    after: Jaxpr


def hoist(jaxpr: Jaxpr, num_consts: int, num_carry: int, operands: Sequence[Aval]) -> Hoisted | None:
    """Divide the body of a scan; None where nothing in it can be computed for all steps at once, or nothing gains by that.

    One product of all rows takes a fraction of the time of a product per iteration, one operator on all rows a fraction of
    as many calls. Matrix products are taken out at any size; other equations where the rows are small and hardly larger than
    what they are computed from. Loops, branches and effects stay, and the whole body does where JAX has no vmap of something in it,
    where it gives sizes of its arrays itself, or where it computes with integers that no Scan takes rows of.

    Args:
      jaxpr: the body.
      num_consts: the number of its operands that are constants; they come first.
      num_carry: the number of operands that are the carry; the slices of the inputs follow.
      operands: the avals of the scan's operands.
    """
    equations = open_jaxpr(jaxpr)[0].eqns
    if any(map(defines_sizes, equations)) or any_narrow(v.aval for eqn in equations for v in eqn.outvars):
        return None
    split = _split(jaxpr, num_consts, num_carry)
    if not split.before and not split.after and not split.is_passed_through():
        return None
    try:
        return _divided(split, num_consts, num_carry, operands)
    except NotImplementedError:  # of vmap
        return None


def adds_weighted_products(jaxpr: Jaxpr, num_consts: int, num_carry: int, states: Collection[int]) -> bool:
    """Whether all that a body does to its states is to add matrix products times something, which no state has a part in.

    Args:
      jaxpr: the body.
      num_consts: the number of its operands that are constants; they come first.
      num_carry: the number of operands that are the carry.
      states: the positions in the carry of values that change, and are no counters.
    """
    inner, _ = open_jaxpr(jaxpr)
    old, new = inner.invars[num_consts : num_consts + num_carry], inner.outvars[:num_carry]
    terms = [_terms(inner.eqns, [old[k]], [new[k]]) for k in states]
    on_states = dependents(inner.eqns, [old[k] for k in states])
    return bool(terms) and all(
        len(one) == 1 and all(_is_weighted(inner.eqns, term, on_states) for term in one) for one in terms
    )


def _is_weighted(equations: Sequence[Equation], term: Var, on_states: Collection[Var]) -> bool:
    """Whether a variable is the elementwise product of a matrix product and something, and no larger than that."""
    made_by = {var: eqn for eqn in equations for var in eqn.outvars}
    if term in on_states or term not in made_by or made_by[term].primitive.name != "mul":
        return False
    found = _with_ancestors([made_by[term]], equations)
    own, _ = _parted(equations, found)
    largest = max((elements(v.aval) for one in own if _multiplies_matrices(one) for v in one.outvars), default=-1)
    return all(map(is_batchable, own)) and elements(term.aval) <= largest


def _divided(split: _Split, num_consts: int, num_carry: int, operands: Sequence[Aval]) -> Hoisted:
    whole = [*operands[:num_consts], *operands[num_consts + num_carry :]]
    kept = [i for i, var in enumerate(split.slices) if var in split.read]
    if not kept and not split.stacked:
        kept = [0]  # it tells the Scan its length
    invars = [*split.consts, *split.invariant, *split.carry, *(split.slices[i] for i in kept), *split.stacked]
    outside = [*split.consts, *split.invariant]
    rows = [*split.stacked, *split.slices, *split.crossing]

    def before(*values: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
        env = split.evaluate(split.before, [*split.consts, *split.slices], values)
        return [env[v] for v in split.invariant], [env[v] for v in split.stacked]

    def body(*values: jax.Array) -> list[jax.Array]:
        env = split.evaluate(split.rest, invars, values)
        return [value_of(v, env) for v in [*split.new_carry, *split.crossing]]

    def after(*values: jax.Array) -> list[jax.Array]:
        env = split.evaluate(split.after, [*outside, *rows], values)
        return [value_of(v, env) for v in split.results]

    batched = jax.vmap(before, [None] * len(split.consts) + [0] * len(split.slices), (None, 0))
    traced, shapes = jax.make_jaxpr(batched, return_shape=True)(*map(struct, whole))
    length = operands[-1].shape[0]
    stacks = [*shapes[1], *map(struct, operands[num_consts + num_carry :])]
    stacks += [jax.ShapeDtypeStruct((length, *v.aval.shape), v.aval.dtype) for v in split.crossing]
    batched_after = jax.vmap(after, [None] * len(outside) + [0] * len(rows), axis_size=length)
    return Hoisted(
        traced, len(split.invariant), jax.make_jaxpr(body)(*(struct(v.aval) for v in invars)), kept,
        jax.make_jaxpr(batched_after)(*(struct(v.aval) for v in outside), *stacks),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Split:
    """A scan's body with its equations in three groups.

    Attributes:
      consts, carry, slices: its input variables.
      closed_over: the values of its constant variables.
      before, rest, after: the equations to take out before the scan, the others, and those to take out behind it.
      new_carry, results: its result variables: the next carry, and what is stacked.
      read: the variables that `rest` and the next carry read.
      invariant, stacked: the variables that `before` computes and that are read after it, the same in every iteration
        or depending on the inputs.
      crossing: the variables of the rest of the body that `after` or the results read.
    """

    consts: Sequence[Var]
    carry: Sequence[Var]
    slices: Sequence[Var]
    closed_over: Env
    before: Sequence[Equation]
    rest: Sequence[Equation]
    after: Sequence[Equation]
    new_carry: Sequence[Var]
    results: Sequence[Var]
    read: Collection[Var]
    invariant: Sequence[Var]
    stacked: Sequence[Var]
    crossing: Sequence[Var]

    def is_passed_through(self) -> bool:
        """Whether one of the results is an input of the scan."""
        return any(v in self.slices for v in self.results if not is_literal(v))

    def evaluate(self, equations: Sequence[Equation], invars: Sequence[Var], values: Sequence[jax.Array]) -> Env:
        """The values of all variables after these equations, given those of the input variables."""
        return evaluate(equations, {**self.closed_over, **dict(zip(invars, values, strict=True))})


def _split(jaxpr: Jaxpr, num_consts: int, num_carry: int) -> _Split:
    """Divide the equations of a body."""
    inner, values = open_jaxpr(jaxpr)
    consts, carry = inner.invars[:num_consts], inner.invars[num_consts : num_consts + num_carry]
    slices = inner.invars[num_consts + num_carry :]
    new_carry, results = inner.outvars[:num_carry], inner.outvars[num_carry:]
    closed_over = dict(zip(inner.constvars, values, strict=True))
    on_slices = dependents(inner.eqns, slices)
    # What an effect gives may differ from iteration to iteration, as the carry does; some draws are others for all steps at once, and
    # a loop may never end in a branch that is not taken.
    stays = [
        v for eqn in inner.eqns
        if eqn.effects or draws_otherwise_if_batched(eqn) or (_any_in(eqn.invars, on_slices) and not is_batchable(eqn))
        for v in eqn.outvars
    ]  # fmt: skip
    on_carry = dependents(inner.eqns, [*carry, *stays])
    terms = _terms(inner.eqns, carry, new_carry)
    out = _before(inner.eqns, on_carry, on_slices, slices, terms)
    before, remaining = _parted(inner.eqns, out)
    made_before = {v for eqn in before for v in eqn.outvars}
    behind = _after(remaining, new_carry, results, {*consts, *closed_over, *slices, *made_before})
    after, rest = _parted(remaining, behind)
    read, read_after = {*read_by(rest, new_carry)}, {*read_by(after, results)}
    made = [v for eqn in before for v in eqn.outvars if v in read or v in read_after]
    inside = [*carry, *(v for eqn in rest for v in eqn.outvars)]
    return _Split(
        consts, carry, slices, closed_over, before, rest, after, new_carry, results, read,
        invariant=[v for v in made if v not in on_slices], stacked=[v for v in made if v in on_slices],
        crossing=[v for v in inside if v in read_after],
    )  # fmt: skip


def _terms(equations: Sequence[Equation], carry: Sequence[Var], new_carry: Sequence[Var]) -> set[Var]:
    """The variables that a step adds to values of the carry."""
    made_by = {var: eqn for eqn in equations for var in eqn.outvars}
    found = (added(made_by, old, new) for old, new in zip(carry, new_carry, strict=True))
    return {var for var in found if var is not None}


def added(made_by: Mapping[Var, Equation], old: Var, new: Var) -> Var | None:
    """The variable that a step adds to a value `old` of the carry, where that gives `new`; None where a step does something else."""
    eqn = None if is_literal(new) else made_by.get(new)
    if eqn is None or eqn.primitive.name not in ("add", "add_any") or old not in eqn.invars:
        return None
    return next((v for v in variables(eqn.invars) if v is not old), None)


def _before(
    equations: Sequence[Equation], on_carry: set[Var], on_slices: set[Var], slices: Sequence[Var], terms: set[Var]
) -> Collection[int]:
    """The ids of the equations that are taken out before the scan.

    What is computed of products only to be added to the carry follows them, where it is no larger.
    """
    free = on_slices - on_carry
    products = [eqn for eqn in equations if _multiplies_matrices(eqn) and _any_in(eqn.outvars, free)]
    out = _with_ancestors(products, equations)
    out |= _sums_of_products(equations, terms & free, out)
    ready = {*slices, *(v for eqn in equations if id(eqn) in out for v in eqn.outvars)}
    small = []
    for eqn in equations:
        reads = [v for v in eqn.invars if not is_literal(v) and v in on_slices]
        if id(eqn) in out or not reads or not all(v in ready for v in reads) or not _any_in(eqn.outvars, free):
            continue
        if not is_batchable(eqn) or not _is_small(eqn, reads):
            continue
        small.append(eqn)
        ready.update(eqn.outvars)
    out |= _with_ancestors(small, equations)
    return out - _repeating(equations, out)


def _sums_of_products(equations: Sequence[Equation], terms: set[Var], out: Collection[int]) -> set[int]:
    """The ids of the equations between products that are taken out and `terms` no larger than these."""
    found = set[int]()
    for eqn in equations:
        if not _any_in(eqn.outvars, terms):
            continue
        ancestors = _with_ancestors([eqn], equations)
        own, others = _parted([one for one in equations if id(one) in ancestors], out)
        largest = max((elements(v.aval) for one in own if _multiplies_matrices(one) for v in one.outvars), default=0)
        if all(is_batchable(one) and all(elements(v.aval) <= largest for v in one.outvars) for one in others):
            found |= ancestors
    return found


def _repeating(equations: Sequence[Equation], out: Collection[int]) -> set[int]:
    """The ids of those equations among `out` that only repeat elements or join parts, for equations that stay: they need not be held."""
    found: set[int] = set()
    read: set[Var] = set()
    for eqn in reversed(equations):
        if id(eqn) not in out:
            continue
        if not _any_in(eqn.outvars, read) and (_is_repeating(eqn) or _makes_complex(eqn)):
            found.add(id(eqn))
            continue
        read.update(variables(eqn.invars))
    return found


def _is_repeating(eqn: Equation) -> bool:
    is_broadcast = eqn.primitive.name == "broadcast_in_dim"
    return is_broadcast and elements(eqn.invars[0].aval) < elements(eqn.outvars[0].aval)


def _makes_complex(eqn: Equation) -> bool:
    """Whether an equation does no more than to put parts into complex numbers."""
    is_conversion = eqn.primitive.name in ("complex", "convert_element_type")
    return is_conversion and jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.complexfloating)


def _after(
    equations: Sequence[Equation], new_carry: Sequence[Var], results: Sequence[Var], outside: Collection[Var]
) -> Collection[int]:
    """The ids of the equations that are taken out behind the scan: the carry does not need them, and they gain by it.

    They gain where matrix products are among them, or where no more has to be held for all steps than without.
    """
    wanted = {*variables(new_carry)}
    stays: set[int] = set()
    for eqn in [*equations[::-1]] * 2:  # what stays may ask for a number of which a part is taken behind it
        reads = variables(eqn.invars)
        small = _multiplies_matrices(eqn) or _is_small(eqn, reads)
        takes_part = eqn.primitive.name in _PARTS and _any_in(reads, wanted)
        if _any_in(eqn.outvars, wanted) or eqn.effects or not is_batchable(eqn) or not small or takes_part:
            stays.add(id(eqn))
            wanted.update(reads)
    behind = [eqn for eqn in equations if id(eqn) not in stays]
    made = {v for eqn in behind for v in eqn.outvars}
    crossing = {*read_by(behind, results)} - made - {*outside}
    held, without = sum(elements(v.aval) for v in crossing), sum(elements(v.aval) for v in {*variables(results)})
    most = _MOST_GROWTH * without if any(map(_multiplies_matrices, behind)) else without
    return {id(eqn) for eqn in behind} if held <= most else set()


def _parted(equations: Sequence[Equation], chosen: Collection[int]) -> tuple[list[Equation], list[Equation]]:
    """The equations whose ids are among `chosen`, and the others."""
    return [eqn for eqn in equations if id(eqn) in chosen], [eqn for eqn in equations if id(eqn) not in chosen]


def _is_small(eqn: Equation, operands: Sequence[Var]) -> bool:
    """Whether the results of an equation may be held for all steps, where its `operands` are."""
    made = max((elements(v.aval) for v in eqn.outvars), default=0)
    given = max((elements(v.aval) for v in operands), default=1)
    return made <= _MOST_ELEMENTS_PER_STEP and (made <= _MOST_GROWTH * given or _looks_up(eqn))


def _looks_up(eqn: Equation) -> bool:
    """Whether an equation is, or calls, one that takes rows of a table."""
    return eqn.primitive.name in _LOOKUPS or any(map(_looks_up, called_equations(eqn)))


def elements(aval: Aval) -> int:
    """The number of elements of a value; a symbolic dimension counts as a small number."""
    return math.prod(dim if is_static(dim) else _SYMBOLIC for dim in aval.shape)


def _any_in(atoms: Sequence[Var], among: Collection[Var]) -> bool:
    return any(v in among for v in variables(atoms))


def _multiplies_matrices(eqn: Equation) -> bool:
    """Whether an equation is, or calls, a `dot_general`; loops and branches are left alone."""
    if eqn.primitive.name == "dot_general" or eqn.primitive.name in CONTROL_FLOW:
        return bool(eqn.primitive.name == "dot_general")
    return any(map(_multiplies_matrices, called_equations(eqn)))


def _with_ancestors(roots: Sequence[Equation], equations: Sequence[Equation]) -> set[int]:
    """The ids of `roots` and of all equations on which they depend."""
    return {id(eqn) for eqn in needed(equations, [v for eqn in roots for v in eqn.outvars])}
