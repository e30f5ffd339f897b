"""`System`: the carries of a scan, each solved in the way of its kind, and the results of the scan computed from them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.extend.core
import jax.numpy as jnp
from jax2onnx_core import Dim, Jaxpr
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.jaxprs import is_literal, open_jaxpr

from jax2onnx_lax._equations import dependents, evaluate, needed, read_by
from jax2onnx_lax.recurrence._affine_updates import AffineUpdate
from jax2onnx_lax.recurrence._body import Body, state_value
from jax2onnx_lax.recurrence._bounds import is_moderate
from jax2onnx_lax.recurrence._carries import Carry, Given, Solution, delayed
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._sequential import sequential_scan
from jax2onnx_lax.recurrence._values import BatchedArray, State, Value

__all__ = ["ScanOperands", "System"]

#: Solves a state that a step is affine in.
LinearSolver = Callable[[AffineUpdate, jax.Array, Dim], Solution]


@dataclasses.dataclass(frozen=True)
class ScanOperands:
    """The operands of a scan, in the order of its steps.

    Attributes:
      consts: the operands that all steps read.
      nonnegative: for each of them, whether it is known to have no elements below zero.
      init: the first carry.
      xs: the operands of which each step reads a row.
      length: the number of steps.
      invariant: the places in the carry of values that no step changes.
      counters: the carried integers that each step increases by one.
    """

    consts: Sequence[jax.Array]
    nonnegative: Sequence[bool]
    init: Sequence[jax.Array]
    xs: Sequence[jax.Array]
    length: Dim
    invariant: frozenset[int]
    counters: frozenset[int]


class System:
    """The carries of a scan.

    Args:
      jaxpr: the body.
      operands: the operands of the scan.
      solve: solves a state that a step is affine in.
    """

    def __init__(self, jaxpr: Jaxpr, operands: ScanOperands, solve: LinearSolver) -> None:
        self._operands, self._solve_linear = operands, solve
        self._jaxpr = open_jaxpr(jaxpr)[0]
        count = len(operands.init)
        self._carries = [Carry(i, init, self._solve) for i, init in enumerate(operands.init)]
        carry = [self._carry_value(i) for i in range(count)]
        states: dict[int, State] = {i: c for i, c in enumerate(self._carries) if i not in operands.invariant}
        values = [*map(_const, operands.consts, operands.nonnegative), *carry, *map(_row, operands.xs)]
        self._body = Body(jaxpr, values, states)
        self._updates = [self._body.updates.get(c, self._body.results[i]) for i, c in enumerate(self._carries)]
        self._reached = _closure([{c.index for c in u.all_states if isinstance(c, Carry)} for u in self._updates])

    def _carry_value(self, index: int) -> Value:
        carry = self._carries[index]
        if index in self._operands.invariant:
            return _const(carry.init, False)
        if jnp.issubdtype(carry.init.dtype, jnp.inexact):
            return state_value(carry, carry.init.shape, carry.init.dtype, after=False)

        def before() -> BatchedArray:
            solution = carry.solution
            if not isinstance(solution, Given):
                raise UnsuitableError("a carry of integers is a sum of products")
            return BatchedArray(solution.before, True)

        return Value(carry.init.shape, carry.init.dtype, before, needs=frozenset({carry}))

    @property
    def linear(self) -> list[int]:
        """The carries that a step is affine in and that depend on no other carry that depends on them."""
        return [i for i in range(len(self._carries)) if self._is_linear(i)]

    def _is_linear(self, index: int) -> bool:
        carry, update = self._carries[index], self._updates[index]
        cycle = any(j != index and index in self._reached[j] for j in self._reached[index])
        return carry in update.states and carry not in update.needs and not cycle

    @property
    def conditions(self) -> list[jax.Array]:
        """Bool scalars: sums of products are the same in the order in which they are computed here where all hold."""
        factors = dict.fromkeys(factor.value for term in self._body.reordered for factor in term.factors)
        return [is_moderate(value.array().array) for value in factors]

    def results(self) -> list[jax.Array]:
        """The last carry and the stacks of the results."""
        count, length = len(self._carries), self._operands.length
        stacks = []
        for value in self._body.results[count:]:
            found = value.array()
            rows = found.array if found.timed else found.array[None]
            stacks.append(jnp.broadcast_to(rows, (length, *rows.shape[1:])))
        # The reads come first: what computes them may give the last state, too.
        last = [c.init if i in self._operands.invariant else c.solution.last for i, c in enumerate(self._carries)]
        return [*last, *stacks]

    def _solve(self, carry: Carry) -> Solution:
        index, length = carry.index, self._operands.length
        if index in self._operands.counters:
            steps = jnp.arange(length, dtype=carry.init.dtype)
            return Given(carry.init + steps, carry.init + jnp.asarray(length).astype(carry.init.dtype))
        if index not in self._reached[index]:
            return delayed(carry.init, self._updates[index].array(), length)
        if self._is_linear(index):
            return self._solve_linear(AffineUpdate.from_value(carry, self._updates[index]), carry.init, length)
        group = [j for j in sorted(self._reached[index]) if index in self._reached[j]]
        return self._solved_groups(tuple(group))[group.index(index)]

    @functools.cache  # noqa: B019 (a system lives as long as one trace)
    def _solved_groups(self, group: tuple[int, ...]) -> list[Given]:
        """Carries that depend on each other or on themselves in another way, by a loop of their own."""
        return _Group(self._jaxpr, self._body, [self._carries[i] for i in group], self._operands).solved()


class _Group:
    """Carries that remain in a loop, with the equations that their next values take."""

    def __init__(
        self, inner: jax.extend.core.Jaxpr, body: Body, carries: Sequence[Carry], operands: ScanOperands
    ) -> None:
        self._body, self._carries, self._operands = body, carries, operands
        first = len(operands.consts)
        self._own = [inner.invars[first + carry.index] for carry in carries]
        self._next = [inner.outvars[carry.index] for carry in carries]
        on_own = dependents(inner.eqns, self._own)
        self._equations = [eqn for eqn in needed(inner.eqns, self._next) if not on_own.isdisjoint(eqn.outvars)]
        self._outside = [v for v in read_by(self._equations, self._next) if v not in on_own]

    def solved(self) -> list[Given]:
        """The values of the carries."""
        found = [self._body.values[var].array() for var in self._outside]
        timed = [x.timed for x in found]
        constants = [x.array for x in found if not x.timed]

        def step(states: PyTree, rows: PyTree, *fixed: jax.Array) -> PyTree:
            fixed_values, row_values = iter(fixed), iter(rows)
            env = dict(zip(self._own, states, strict=True))
            env.update({v: next(row_values if t else fixed_values) for v, t in zip(self._outside, timed, strict=True)})
            env = evaluate(self._equations, env)
            new = [jnp.asarray(v.val, v.aval.dtype) if is_literal(v) else env[v] for v in self._next]
            return new, list(states)

        init, rows = [carry.init for carry in self._carries], [x.array for x in found if x.timed]
        last, before = sequential_scan(step, init, rows, self._operands.length, constants=constants)
        return [Given(b, x) for b, x in zip(before, last, strict=True)]


def _closure(direct: Sequence[set[int]]) -> list[set[int]]:
    """The carries that each carry depends on, through others too."""
    reached = [set(group) for group in direct]
    for middle in range(len(reached)):
        for group in reached:
            if middle in group:
                group |= reached[middle]
    return reached


def _const(array: jax.Array, nonnegative: bool) -> Value:
    return Value(array.shape, array.dtype, lambda: BatchedArray(array, False), timed=False, nonnegative=nonnegative)


def _row(array: jax.Array) -> Value:
    return Value(array.shape[1:], array.dtype, lambda: BatchedArray(array, True))
