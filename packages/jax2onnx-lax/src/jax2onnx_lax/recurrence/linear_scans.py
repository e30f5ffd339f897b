"""`scan` as a recurrence that is linear in its state, where that is faster than step by step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Context, Dim, Jaxpr, Value
from jax2onnx_core.jaxprs import is_static, open_jaxpr, struct
from jax2onnx_core.lowering.physical import physical_type

from jax2onnx_lax._compat import inconclusive_dimension_error
from jax2onnx_lax.random._equations import has_keys
from jax2onnx_lax.recurrence._convolution import ConvolutionSolution
from jax2onnx_lax.recurrence._elementwise import ElementwiseSolution, SumSolution
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._parts import parted
from jax2onnx_lax.recurrence._sequential import Loop, sequential_scan
from jax2onnx_lax.recurrence._solver import FEWEST_OF_SYMBOLIC, FEWEST_STEPS, AnySolution, Solver
from jax2onnx_lax.recurrence._system import ScanOperands, System
from jax2onnx_lax.reduce._branches import branch

__all__ = ["ScanBody", "linear_scan"]


@dataclasses.dataclass(frozen=True)
class ScanBody:
    """The body of a scan, and how it runs.

    Attributes:
      jaxpr: the body.
      num_consts, num_carry: the numbers of operands that are constants, and of the next ones that are the carry.
      invariant: the places in the carry of values that no step changes.
      counters: the carried integers that each step increases by one.
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
    if has_keys(body.jaxpr):
        ctx.pass_on("its steps have random keys, which are no numbers")
    nonnegative = [_is_nonnegative(ctx.known(x)) for x in operands[: body.num_consts]]
    task, avals = _Task(ctx, loop, operands), list(map(struct, ctx.avals_in))
    traced = ctx.once(lambda: task.traced(body, avals, nonnegative), "linear_scan", body, avals, nonnegative)
    if is_static(body.length) and body.length < traced.least:
        ctx.pass_on("it has few steps")
    return task.lowered(traced, body.length)


def _is_nonnegative(known: np.ndarray | None) -> bool:
    return known is not None and known.dtype.kind == "f" and bool((known >= 0).all())


@dataclasses.dataclass(frozen=True)
class _Traced:
    """The results of a scan in another form.

    Attributes:
      jaxpr: computes them.
      guarded: whether it has one more result, which is false where the others may not be those of the scan.
      least: the number of steps below which the scan is faster.
      early: whether that result may be known before the others are computed.
    """

    jaxpr: Jaxpr
    guarded: bool
    least: int
    early: bool


@dataclasses.dataclass(frozen=True)
class _Task:
    """A scan to be computed in another form; `loop` writes it as it is."""

    ctx: Context
    loop: Loop
    operands: Sequence[Value]

    def traced(self, body: ScanBody, avals: Sequence[jax.ShapeDtypeStruct], nonnegative: Sequence[bool]) -> _Traced:
        """The other form; declines where it would not be faster, or not the same."""
        steps = _Steps(self.ctx, body, nonnegative)
        try:
            whole = jax.make_jaxpr(steps.all_at_once)(*avals)
            chosen = steps.divided(avals) or whole
        except UnsuitableError as reason:
            self.ctx.decline(str(reason))
        except inconclusive_dimension_error:
            self.ctx.decline("its sizes cannot be compared")
        except NotImplementedError as error:  # of vmap
            self.ctx.decline(
                f"JAX does not compute all of its steps at once ({next(iter(str(error).splitlines()), '')})"
            )
        if not steps.solved:
            self.ctx.decline("no value that its steps hand on is computed faster in another form")
        guarded = len(open_jaxpr(chosen)[0].outvars) > len(self.ctx.avals_out)
        return _Traced(chosen, guarded, steps.least, guarded and chosen is whole and steps.is_elementwise)

    def lowered(self, traced: _Traced, length: Dim) -> Sequence[Value]:
        """The results; those of the loop where they would be others, or where the loop has few steps."""
        few = None
        if not is_static(length) and traced.least:
            few = self.ctx.op.Less(self.ctx.dim(length), self.ctx.constant(traced.least, dtype=np.int64))
        parts = parted(traced.jaxpr) if traced.early else None
        if parts is not None:
            return self._guarded_early(parts, few)
        if few is None:
            return self._guarded(self.ctx, traced)
        return branch(self.ctx, few, usual=lambda sub: self._guarded(sub, traced), rare=self._looped)

    def _guarded(self, ctx: Context, traced: _Traced) -> Sequence[Value]:
        found = ctx.inline(traced.jaxpr, *self.operands)
        if not traced.guarded:
            return found
        *results, safe = found
        return branch(ctx, ctx.op.Not(safe), usual=lambda sub: results, rare=self._looped)

    def _guarded_early(self, parts: tuple[Jaxpr, Jaxpr], few: Value | None) -> Sequence[Value]:
        """The same by one If, whose condition is computed first."""
        before, after = parts
        *shared, safe = self.ctx.inline(before, *self.operands)
        unsafe = self.ctx.op.Not(safe)
        return branch(
            self.ctx, unsafe if few is None else self.ctx.op.Or(few, unsafe),
            usual=lambda sub: sub.inline(after, *self.operands, *shared), rare=self._looped,
        )  # fmt: skip

    def _looped(self, ctx: Context) -> Sequence[Value]:
        results = self.loop(ctx, *self.operands)
        return [ctx.with_dims(y, physical_type(a)[1]) for y, a in zip(results, ctx.avals_out, strict=True)]


class _Steps:
    """The steps of a scan in another form.

    Attributes:
      solved: the states of the last trace, as they are computed.
    """

    def __init__(self, ctx: Context, body: ScanBody, nonnegative: Sequence[bool]) -> None:
        self._ctx, self._body, self._nonnegative = ctx, body, nonnegative
        self.solved: Sequence[AnySolution] = ()

    @property
    def least(self) -> int:
        """The number of steps below which the loop is faster."""
        others = [x for x in self.solved if not isinstance(x, SumSolution)]
        if not is_static(self._body.length) and any(
            isinstance(x, ConvolutionSolution | ElementwiseSolution) for x in others
        ):
            return FEWEST_OF_SYMBOLIC
        is_in_parts = any(x.segment is not None or isinstance(x, ElementwiseSolution) for x in others)
        return FEWEST_STEPS if is_in_parts else 0

    @property
    def is_elementwise(self) -> bool:
        """Whether all states are recurrences of their elements, whose conditions are known before they are solved."""
        return all(isinstance(x, ElementwiseSolution | SumSolution) for x in self.solved)

    @property
    def segment(self) -> int | None:
        """The number of steps to compute at once; None for all of them."""
        sizes = [solution.segment for solution in self.solved]
        return min((size for size in sizes if size is not None), default=None) if None not in sizes else None

    def all_at_once(self, *arrays: jax.Array) -> list[jax.Array]:
        """The results, and whether they are those of the scan where that is not certain."""
        consts, init, rows = self._parted(arrays)
        results, safe = self._computed(consts, init, rows, self._body.length)
        return self._ordered(results, safe)

    def divided(self, avals: Sequence[jax.ShapeDtypeStruct]) -> Jaxpr | None:
        """The same, traced for segments of steps; None if there are not several of them, or JAX hands on values around them."""
        size, length = self.segment, self._body.length
        if size is None or (is_static(length) and length < 2 * size):
            return None
        try:
            return jax.make_jaxpr(self.in_segments(size))(*avals)
        except UnsuitableError:
            return None

    def in_segments(self, size: int) -> Callable[..., list[jax.Array]]:
        """Solve `size` steps after another, so that intermediate arrays stay in the caches of the processor."""
        length, count = self._body.length, self._body.num_carry
        segments = length // size if is_static(length) else (length - 1) // size

        kept = [k for k in range(count) if k not in self._body.invariant]

        def compute(*arrays: jax.Array) -> list[jax.Array]:
            consts, init, rows = self._parted(arrays)
            parts = [x[: segments * size].reshape(segments, size, *x.shape[1:]) for x in rows]
            guarded = self._is_guarded_of(size, consts, init, parts)

            def across(carry: list[jax.Array], part: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
                state = list(init)
                for k, x in zip(kept, carry, strict=False):
                    state[k] = x
                results, safe = self._computed(consts, state, part, size)
                # A condition is handed on instead of stacked: there may be no segment.
                both = [carry[-1] & x for x in safe]
                return [*(results[k] for k in kept), *both], results[count:]

            first = [*(init[k] for k in kept), *([jnp.asarray(True)] if guarded else [])]
            last, stacks = sequential_scan(across, first, parts, divided=False)
            state = list(init)
            for k, x in zip(kept, last, strict=False):
                state[k] = x
            safe, rest = last[len(kept) :], length - segments * size
            whole = [y.reshape(segments * size, *y.shape[2:]) for y in stacks]
            if is_static(rest) and rest == 0:
                return self._ordered([*state, *whole], safe)
            results, more = self._computed(consts, state, [x[segments * size :] for x in rows], rest)
            whole = [jnp.concatenate(pair) for pair in zip(whole, results[count:], strict=True)]
            return self._ordered([*results[:count], *whole], [*safe, *more])

        return compute

    def _is_guarded_of(
        self, size: int, consts: Sequence[jax.Array], init: Sequence[jax.Array], parts: Sequence[jax.Array]
    ) -> bool:
        """Whether the results of a segment may not be those of the scan."""
        rows = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in parts]
        return bool(jax.eval_shape(lambda rows: self._computed(consts, init, rows, size)[1], rows))

    def _parted(
        self, arrays: Sequence[jax.Array]
    ) -> tuple[Sequence[jax.Array], Sequence[jax.Array], Sequence[jax.Array]]:
        """The constants, the first carry, and the rows in the order of the steps."""
        first, count = self._body.num_consts, self._body.num_carry
        rows = [jnp.flip(x, 0) if self._body.reverse else x for x in arrays[first + count :]]
        return arrays[:first], arrays[first : first + count], rows

    def _computed(
        self, consts: Sequence[jax.Array], init: Sequence[jax.Array], rows: Sequence[jax.Array], length: Dim
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """The results of steps, and whether they are those of the scan, if that is not certain."""
        body, solver = self._body, Solver(self._ctx)
        given = ScanOperands(consts, self._nonnegative, init, rows, length, body.invariant, body.counters)
        system = System(body.jaxpr, given, solver)
        if not system.linear:
            raise UnsuitableError("no value that its steps hand on is linear in itself")
        results = system.results()
        conditions = [*solver.conditions, *system.conditions]
        self.solved = solver.solved
        return results, [functools.reduce(jnp.logical_and, conditions)] if conditions else []

    def _ordered(self, results: Sequence[jax.Array], safe: Sequence[jax.Array]) -> list[jax.Array]:
        """The results with the last step first where the scan is reversed, then whether all of them are safe."""
        count = self._body.num_carry
        stacks = [jnp.flip(y, 0) if self._body.reverse else y for y in results[count:]]
        return [*results[:count], *stacks, *([functools.reduce(jnp.logical_and, safe)] if safe else [])]
