"""`scan` as a recurrence that is linear in its state, where that is faster than step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Context, Dim, Jaxpr, Value
from jax2onnx_core.jaxprs import is_static, struct
from jax2onnx_core.lowering.physical import physical_type

from jax2onnx_lax._compat import inconclusive_dimension_error
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._solver import Solver
from jax2onnx_lax.recurrence._system import ScanOperands, System
from jax2onnx_lax.reduce._branches import branch

__all__ = ["Loop", "ScanBody", "linear_scan"]

#: Writes a scan as a loop, with its operands.
Loop = Callable[..., Sequence[Value]]


@dataclasses.dataclass(frozen=True)
class ScanBody:
    """The body of a scan, and how it runs.

    Attributes:
      jaxpr: the body.
      num_consts, num_carry: how many of its operands are constants, and how many of the next ones are the carry.
      invariant: the places in the carry of values that no step changes.
      counters: those of integers that each step increases by one.
      length: the number of steps, at least one.
      reverse: whether the last step comes first.
    """

    jaxpr: Jaxpr
    num_consts: int
    num_carry: int
    invariant: frozenset[int]
    counters: frozenset[int]
    length: Dim
    reverse: bool


def linear_scan(ctx: Context, loop: Loop, operands: Sequence[Value], body: ScanBody) -> Sequence[Value]:
    """The results of a scan, a state of which is a linear recurrence; declines where it is best computed step by step.

    States of matrices that are written by keys and read by queries become linear attention, where the target has it, else products of
    matrices over chunks of steps; small states whose elements are recurrences of their own are computed in blocks. Where special
    values would come out otherwise, the loop is a branch of the model, which is taken if there are some.

    Args:
      ctx: the context of the scan.
      loop: writes the scan as a loop, in the context that it gets, with the operands.
      operands: the constants, the first carry, and what each step reads its row of.
      body: the body.
    """
    task = _Task(ctx, loop, operands)
    traced = task.traced(body)
    if is_static(body.length) and body.length < traced.least:
        ctx.decline("it has few steps")
    return task.lowered(traced, body.length)


@dataclasses.dataclass(frozen=True)
class _Traced:
    """The results of a scan in another form.

    Attributes:
      jaxpr: computes them.
      guarded: whether it has one more result, which is false where the others may not be those of the scan.
      least: of fewer steps the scan is faster.
    """

    jaxpr: Jaxpr
    guarded: bool
    least: int


@dataclasses.dataclass(frozen=True)
class _Task:
    """A scan to be computed in another form; `loop` writes it as it is."""

    ctx: Context
    loop: Loop
    operands: Sequence[Value]

    def traced(self, body: ScanBody) -> _Traced:
        """The other form; declines where it would not be faster, or not the same."""
        first, count = body.num_consts, body.num_carry
        nonnegative = [self._is_nonnegative(value) for value in self.operands[:first]]
        solver = Solver(self.ctx)
        conditions: list[jax.Array] = []

        def compute(*arrays: jax.Array) -> list[jax.Array]:
            rows = [jnp.flip(x, 0) if body.reverse else x for x in arrays[first + count :]]
            consts, init = arrays[:first], arrays[first : first + count]
            given = ScanOperands(consts, nonnegative, init, rows, body.length, body.invariant, body.counters)
            system = System(body.jaxpr, given, solver)
            if not system.linear:
                raise UnsuitableError("no value that its steps hand on is linear in itself")
            results = system.results()
            conditions.extend([*solver.conditions, *system.conditions])
            stacks = [jnp.flip(y, 0) if body.reverse else y for y in results[count:]]
            return [*results[:count], *stacks, *([jnp.all(jnp.stack(conditions))] if conditions else [])]

        try:
            traced = jax.make_jaxpr(compute)(*map(struct, self.ctx.avals_in))
        except UnsuitableError as reason:
            self.ctx.decline(str(reason))
        except inconclusive_dimension_error:
            self.ctx.decline("its sizes cannot be compared")
        except NotImplementedError as error:  # of vmap
            self.ctx.decline(
                f"JAX does not compute all of its steps at once ({next(iter(str(error).splitlines()), '')})"
            )
        if not solver.solved:
            self.ctx.decline("no value that its steps hand on is computed faster in another form")
        return _Traced(traced, bool(conditions), solver.least)

    def _is_nonnegative(self, value: Value) -> bool:
        known = self.ctx.known(value)
        return known is not None and known.dtype.kind == "f" and bool((known >= 0).all())

    def lowered(self, traced: _Traced, length: Dim) -> Sequence[Value]:
        """The results; those of the loop where they would be others, or where the loop has few steps."""
        if is_static(length) or not traced.least:
            return self._guarded(self.ctx, traced)
        few = self.ctx.op.Less(self.ctx.dim(length), self.ctx.constant(traced.least, dtype=np.int64))
        return branch(self.ctx, few, usual=lambda sub: self._guarded(sub, traced), rare=self._looped)

    def _guarded(self, ctx: Context, traced: _Traced) -> Sequence[Value]:
        found = ctx.inline(traced.jaxpr, *self.operands)
        if not traced.guarded:
            return found
        *results, safe = found
        return branch(ctx, ctx.op.Not(safe), usual=lambda sub: results, rare=self._looped)

    def _looped(self, ctx: Context) -> Sequence[Value]:
        results = self.loop(ctx, *self.operands)
        return [ctx.with_dims(y, physical_type(a)[1]) for y, a in zip(results, ctx.avals_out, strict=True)]
