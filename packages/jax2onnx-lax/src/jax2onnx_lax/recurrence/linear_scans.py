"""`scan` as a recurrence that is linear in its state, where that is faster than step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Context, Dim, Jaxpr, Value
from jax2onnx_core.jaxprs import is_positive, is_static, struct

from jax2onnx_lax._compat import scan_counts
from jax2onnx_lax.recurrence._errors import Unsuitable
from jax2onnx_lax.recurrence._solver import Solver
from jax2onnx_lax.recurrence._system import ScanOperands, System
from jax2onnx_lax.reduce._branches import branch

__all__ = ["ScanRule", "linear_scan"]

#: A scan of fewer steps is no faster in another form.
_FEWEST_STEPS = 4


#: The rule that writes a scan as a loop.
ScanRule = Callable[..., Sequence[Value]]


def linear_scan(
    ctx: Context, scan: ScanRule, operands: Sequence[Value], jaxpr: Jaxpr, length: Dim, reverse: bool, unroll: int = 1,
    **params: object,
) -> Sequence[Value]:  # fmt: skip
    """The results of a scan, a state of which is a linear recurrence; declines where it is best computed step by step.

    States of matrices that are written by keys and read by queries become linear attention, where the target has it; small states
    whose elements are recurrences of their own are computed in blocks. Where special values would come out otherwise, the scan is
    a branch of the model, which is taken if there are some.
    """
    if not is_positive(length) or (is_static(length) and (length < _FEWEST_STEPS or unroll >= length)):
        ctx.decline("it has few steps")
    counts = scan_counts(params, len(operands))
    task = _Task(ctx, scan, jaxpr, counts, length, reverse)
    traced = task.traced(operands)
    if traced is None:
        ctx.decline("no value that its steps hand on is linear in itself")
    return task.lowered(
        traced, operands, {"jaxpr": jaxpr, "length": length, "reverse": reverse, "unroll": unroll, **params}
    )


@dataclasses.dataclass(frozen=True)
class _Task:
    """A scan to be computed in another form."""

    ctx: Context
    scan: ScanRule
    jaxpr: Jaxpr
    counts: tuple[int, int]
    length: Dim
    reverse: bool

    def traced(self, operands: Sequence[Value]) -> _Traced | None:
        """The computation of its results in another form; None if no carry is linear in itself.

        Raises:
          Declined: it would not be faster, or not the same.
        """
        guarded = False

        def compute(*arrays: jax.Array) -> list[jax.Array]:
            nonlocal guarded
            solver = Solver(self.ctx)
            results, conditions = self._results(arrays, operands, solver)
            guarded = bool(conditions)
            return [*results, *([jnp.all(jnp.stack(conditions))] if guarded else [])]

        try:
            jaxpr = jax.make_jaxpr(compute)(*map(struct, self.ctx.avals_in))
        except _NotLinear:
            return None
        except Unsuitable as reason:
            self.ctx.decline(str(reason))
        return _Traced(jaxpr, guarded)

    def _results(
        self, arrays: Sequence[jax.Array], values: Sequence[Value], solver: Solver
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """The results, and what has to hold for them to be those of the scan."""
        first, count = self.counts
        rows = [jnp.flip(x, 0) if self.reverse else x for x in arrays[first + count :]]
        nonnegative = [self._is_nonnegative(value) for value in values[:first]]
        given = ScanOperands(arrays[:first], nonnegative, arrays[first : first + count], rows, self.length)
        system = System(self.jaxpr, given, solver)
        if not system.linear:
            raise _NotLinear
        results = system.results()
        if not solver.solved:
            raise _NotLinear
        stacks = [jnp.flip(y, 0) if self.reverse else y for y in results[count:]]
        return [*results[:count], *stacks], [*solver.conditions, *system.conditions]

    def _is_nonnegative(self, value: Value) -> bool:
        known = self.ctx.known(value)
        return known is not None and known.dtype.kind == "f" and bool((known >= 0).all())

    def lowered(self, traced: _Traced, operands: Sequence[Value], params: dict[str, object]) -> Sequence[Value]:
        """The results; those of the scan where they would be others."""
        found = self.ctx.inline(traced.jaxpr, *operands)
        if not traced.guarded:
            return found
        *results, safe = found
        return branch(
            self.ctx, self.ctx.op.Not(safe), usual=lambda sub: results,
            rare=lambda sub: self.scan(sub, *operands, **params),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Traced:
    """A computation of the results of a scan; where `guarded`, with a last result that is false where they may be wrong."""

    jaxpr: Jaxpr
    guarded: bool


class _NotLinear(Exception):
    """No carry of a scan is linear in itself."""
