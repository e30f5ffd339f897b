"""Analysis of the carry of `while` and `scan` bodies, and the Loop operator that both lower to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jax2onnx_core import Aval, Context, Jaxpr, Value
from jax2onnx_core.jax_types import Equation, Var
from jax2onnx_core.jaxprs import is_literal, open_jaxpr
from jax2onnx_core.lowering.context import Subgraph

from jax2onnx_lax.integers._domain import Integers
from jax2onnx_lax.integers._values import integers, set_integers

__all__ = ["IterationResults", "LoopBody", "counter_after", "emit_loop"]


@dataclasses.dataclass(frozen=True)
class LoopBody:
    """The body of a loop, with its effect on each value of the carry.

    Attributes:
      jaxpr: the body; the first of its results are the next carry.
      num_carry: the number of values in the carry.
      invariant: the positions in the carry of values that no iteration changes; they are used from outside the loop.
      counters: the positions of values that each iteration increases by one; they follow from the iteration number.
    """

    jaxpr: Jaxpr
    num_carry: int
    invariant: frozenset[int]
    counters: frozenset[int]

    @staticmethod
    def analyse(jaxpr: Jaxpr, first: int, num_carry: int) -> LoopBody:
        """Find the invariant values and the counters in the carry of a body.

        Args:
          jaxpr: the body.
          first: the position of the carry in its inputs.
          num_carry: the number of values in the carry, which are its first results.
        """
        inner, _ = open_jaxpr(jaxpr)
        made_by = {var: eqn for eqn in inner.eqns for var in eqn.outvars}
        carry = list(enumerate(zip(inner.invars[first : first + num_carry], inner.outvars[:num_carry], strict=True)))
        invariant = frozenset(k for k, (old, new) in carry if old is new)
        counters = frozenset(k for k, (old, new) in carry if not is_literal(new) and _increments(made_by.get(new), old))
        return LoopBody(jaxpr, num_carry, invariant, counters)

    @staticmethod
    def attempted(ctx: Context, jaxpr: Jaxpr, first: int, num_carry: int) -> LoopBody:
        """The analysed body; one that carries all values where the analysis fails. The arguments are those of `analyse`."""
        found = ctx.attempt(lambda: LoopBody.analyse(jaxpr, first, num_carry), "the analysis of the carry")
        return found or LoopBody(jaxpr, num_carry, frozenset(), frozenset())

    def without_counters(self) -> LoopBody:
        """The same body for a loop that carries its counters like other values."""
        return dataclasses.replace(self, counters=frozenset())

    @property
    def states(self) -> list[int]:
        """The positions of the values that the ONNX loop carries: neither invariant nor counters."""
        return [k for k in range(self.num_carry) if k not in self.invariant | self.counters]

    def carry(self, init: Sequence[Value], states: Sequence[Value], counter: Callable[[Value], Value]) -> list[Value]:
        """The whole carry in its order.

        Args:
          init: the carry before the loop, from which invariant values are taken.
          states: the values that the ONNX loop carries, in the order of `self.states`.
          counter: the value of a counter from the one that it begins with.
        """
        rest = iter(states)
        return [
            init[k] if k in self.invariant else counter(init[k]) if k in self.counters else next(rest)
            for k in range(self.num_carry)
        ]


def _increments(eqn: Equation | None, old: Var) -> bool:
    """Whether an equation adds one to `old`, a scalar of a signed integer dtype."""
    if eqn is None or eqn.primitive.name != "add" or old.aval.shape or np.dtype(old.aval.dtype).kind != "i":
        return False
    x, y = eqn.invars
    if x is not old:
        x, y = y, x
    return x is old and is_literal(y) and int(y.val) == 1


def counter_after(ctx: Context, start: Value, iterations: Value) -> Value:
    """The value of a counter after some iterations.

    Args:
      ctx: the context of the rule.
      start: the counter before the loop, a scalar of a signed integer dtype.
      iterations: the number of iterations, an int64 scalar.

    Returns:
      A scalar of the dtype of `start`.
    """
    dtype, known = ctx.dtype(start), ctx.known(start)
    number = ctx.define(ctx.cast(iterations, dtype), "convert_element_type", iterations, new_dtype=dtype)
    if known is not None and not known.any():
        return number
    return ctx.define(ctx.op.Add(number, start), "add", number, start)


class IterationResults(NamedTuple):
    """The results of one iteration of a Loop.

    Attributes:
      condition: whether there is another iteration, a bool scalar; None for yes.
      states: the next states.
      stacked: values that are stacked over all iterations.
    """

    condition: Value | None
    states: Sequence[Value]
    stacked: Sequence[Value] = ()


def emit_loop(
    ctx: Context, count: Value | None, condition: Value | None, avals: Sequence[Aval], init: Sequence[Value],
    step: Callable[[Subgraph, Value, list[Value]], IterationResults],
) -> tuple[Value, ...]:  # fmt: skip
    """Emit a Loop.

    Args:
      ctx: where the Loop goes.
      count: the number of iterations at most, an int64 scalar; None for no limit.
      condition: a bool scalar, whether there is a first iteration; None for yes.
      avals: the types of the states.
      init: the first states.
      step: builds the body: `step(body, iteration number, states)`.

    Returns:
      The last states, then the stacked values `[iterations, …]`.
    """
    body = ctx.subgraph("body")
    iteration = body.input("iteration", np.int64, ())
    if count is not None:
        set_integers(iteration, Integers(0, integers(ctx, count).high - 1))
    own_condition = body.input("condition", np.bool_, ())
    states = [body.input_for(aval, "carry") for aval in avals]
    next_condition, new, stacked = step(body, iteration, states)
    outputs = len(new) + len(stacked)
    if not outputs:
        return ()
    graph = body.graph([own_condition if next_condition is None else next_condition, *new, *stacked])
    if condition is None:  # may be left out, but not every reader takes that for true
        condition = ctx.constant(np.array(True))
    return ctx.op.several("Loop", count, condition, *init, body=graph, outputs=outputs)
