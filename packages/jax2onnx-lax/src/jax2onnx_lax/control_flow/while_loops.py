"""`while` as Loop; with a trip count where its condition compares a counter with a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax import lax
from jax.extend.core.primitives import while_p
from jax2onnx_core import Context, Jaxpr, Rules, Value
from jax2onnx_core.jaxprs import eval_jaxpr, is_extended_dtype, is_literal, open_jaxpr, struct
from jax2onnx_core.lowering.context import Subgraph

from jax2onnx_lax.control_flow._carried import any_narrow, apart, together
from jax2onnx_lax.control_flow._loop_bodies import IterationResults, LoopBody, counter_after, emit_loop
from jax2onnx_lax.indexing._index_arrays import wide_index

__all__ = ["rules"]

rules = Rules()


@rules.lower("while", physical=True)
def while_loop(
    ctx: Context, *operands: Value, cond_nconsts: int, cond_jaxpr: Jaxpr, body_nconsts: int, body_jaxpr: Jaxpr,
    **_: object,
) -> Sequence[Value]:  # fmt: skip
    """A Loop over the carry; without a condition where the number of iterations is known when it starts."""
    cond_consts, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    consts, init = rest[:body_nconsts], rest[body_nconsts:]
    if any_narrow(ctx.avals_out):
        traced = _handing_on(cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts)
        return ctx.inline(jax.make_jaxpr(traced)(*map(struct, ctx.avals_in)), *operands)
    body = LoopBody.attempted(ctx, body_jaxpr, body_nconsts, len(init))
    found = ctx.attempt(
        lambda: _counter_and_bound(ctx, cond_jaxpr, cond_consts, init, body), "the analysis of the condition"
    )
    if found is not None:
        return _counted_loop(ctx, body, consts, init, *found)
    return _conditional_loop(ctx, body.without_counters(), cond_jaxpr, cond_consts, consts, init)


def _handing_on(
    cond_jaxpr: Jaxpr, cond_nconsts: int, body_jaxpr: Jaxpr, body_nconsts: int
) -> Callable[..., list[jax.Array]]:
    """The same loop with its carry `apart`."""
    num_consts = cond_nconsts + body_nconsts
    dtypes = [v.aval.dtype for v in open_jaxpr(body_jaxpr)[0].outvars]

    def looped(*operands: jax.Array) -> list[jax.Array]:
        consts, init = operands[:num_consts], operands[num_consts:]
        first, tree = jax.tree.flatten(list(map(apart, init)))

        def running(*values: jax.Array) -> jax.Array:
            return eval_jaxpr(cond_jaxpr, *values[:cond_nconsts], *given(values[cond_nconsts:]))[0]

        def step(*values: jax.Array) -> list[jax.Array]:
            made = eval_jaxpr(body_jaxpr, *values[:body_nconsts], *given(values[body_nconsts:]))
            return jax.tree.leaves(list(map(apart, made)))

        def given(carry: Sequence[jax.Array]) -> list[jax.Array]:
            return list(map(together, jax.tree.unflatten(tree, carry), dtypes))

        # Its predicate may have axes, which those of jax.lax.while_loop have not.
        last = while_p.bind(
            *consts, *first, cond_nconsts=cond_nconsts, body_nconsts=body_nconsts,
            cond_jaxpr=jax.make_jaxpr(running)(*consts[:cond_nconsts], *first),
            body_jaxpr=jax.make_jaxpr(step)(*consts[cond_nconsts:], *first),
        )  # fmt: skip
        return given(last)

    return looped


def _counter_and_bound(
    ctx: Context, cond_jaxpr: Jaxpr, consts: Sequence[Value], init: Sequence[Value], body: LoopBody
) -> tuple[int, Value] | None:
    """`(position in the carry, bound)` if the condition is `counter < bound` with a bound that stays the same."""
    inner, own = open_jaxpr(cond_jaxpr)
    if len(inner.eqns) != 1 or inner.eqns[0].primitive.name != "lt" or own:
        return None
    if inner.outvars[0] is not inner.eqns[0].outvars[0]:
        return None
    counter, bound = inner.eqns[0].invars
    positions = {var: position - len(consts) for position, var in enumerate(inner.invars)}
    if is_literal(counter) or positions[counter] not in body.counters:
        return None
    if is_literal(bound):
        return positions[counter], ctx.constant(bound.val, dtype=np.dtype(bound.aval.dtype))
    position = positions[bound]
    if position >= 0 and position not in body.invariant:
        return None
    return positions[counter], (init[position] if position >= 0 else consts[position + len(consts)])


def _counted_loop(
    ctx: Context, body: LoopBody, consts: Sequence[Value], init: Sequence[Value], counter: int, bound: Value
) -> list[Value]:
    """The carry after the loop that runs while the carry's value at position `counter` is less than `bound`.

    Where their number is known, it is a scan, as `fori_loop` is.
    """
    count = _trip_count(ctx, init[counter], bound)
    known = ctx.known(count)
    has_keys = any(is_extended_dtype(v.aval.dtype) for v in open_jaxpr(body.jaxpr)[0].invars)  # which are words here
    scanned = (
        None
        if known is None or has_keys
        else ctx.attempt(lambda: _scanned(ctx, body, consts, init, int(known)), "the scan")
    )
    if scanned is not None:
        return list(ctx.inline(scanned, *consts, *init))

    def step(sub: Subgraph, iteration: Value, states: list[Value]) -> IterationResults:
        carry = body.carry(init, states, lambda start: counter_after(sub, start, iteration))
        new = sub.inline(body.jaxpr, *consts, *carry)
        return IterationResults(None, [new[k] for k in body.states])

    states, avals = [init[k] for k in body.states], [ctx.avals_out[k] for k in body.states]
    last = emit_loop(ctx, count, None, avals, states, step)
    return body.carry(init, last, lambda start: counter_after(ctx, start, _at_least_zero(ctx, count)))


def _scanned(ctx: Context, body: LoopBody, consts: Sequence[Value], init: Sequence[Value], length: int) -> Jaxpr:
    """The loop of a known number of iterations as a scan without inputs."""

    def fn(*operands: jax.Array) -> list[jax.Array]:
        fixed, start = operands[: len(consts)], operands[len(consts) :]
        return lax.scan(lambda carry, _: (eval_jaxpr(body.jaxpr, *fixed, *carry), None), [*start], length=length)[0]

    return jax.make_jaxpr(fn)(*(jax.ShapeDtypeStruct(ctx.known_dims(x), ctx.dtype(x)) for x in (*consts, *init)))


def _trip_count(ctx: Context, start: Value, bound: Value) -> Value:
    """`bound - start` as an int64 scalar; Loop takes a negative one for zero."""
    first, last = ctx.known(start), ctx.known(bound)
    if first is not None and last is not None:
        return ctx.constant(max(int(last) - int(first), 0), dtype=np.int64)
    start, bound = wide_index(ctx, start), wide_index(ctx, bound)
    if first is not None and not first.any():
        return bound
    return ctx.define(ctx.op.Sub(bound, start), "sub", bound, start)


def _at_least_zero(ctx: Context, count: Value) -> Value:
    return ctx.op.Max(count, ctx.constant(0, dtype=np.int64)) if ctx.known(count) is None else count


def _conditional_loop(
    ctx: Context, body: LoopBody, cond_jaxpr: Jaxpr, cond_consts: Sequence[Value], consts: Sequence[Value],
    init: Sequence[Value],
) -> list[Value]:  # fmt: skip
    """The carry after a loop that evaluates its condition before the first and after every iteration.

    A predicate with axes (a loop under `vmap`) goes on while any of its elements is true; the elements of the
    carry for which it is false keep their values.
    """
    first = ctx.inline(cond_jaxpr, *cond_consts, *init)[0]
    batched = bool(open_jaxpr(cond_jaxpr)[0].outvars[0].aval.shape)

    def predicate(sub: Context, states: Sequence[Value]) -> Value:
        return sub.inline(cond_jaxpr, *cond_consts, *_carry(body, init, states))[0]

    def step(sub: Subgraph, _: Value, states: list[Value]) -> IterationResults:
        results = sub.inline(body.jaxpr, *consts, *_carry(body, init, states))
        new = [results[k] for k in body.states]
        if batched:
            running = predicate(sub, states)
            new = [_where(sub, running, x, y) for x, y in zip(new, states, strict=True)]
        return IterationResults(_any(sub, predicate(sub, new)), new)

    states, avals = [init[k] for k in body.states], [ctx.avals_out[k] for k in body.states]
    return _carry(body, init, emit_loop(ctx, None, _any(ctx, first), avals, states, step))


def _carry(body: LoopBody, init: Sequence[Value], states: Sequence[Value]) -> list[Value]:
    """The whole carry of a body without counters."""
    return body.carry(init, states, lambda start: start)


def _any(ctx: Context, predicate: Value) -> Value:
    """Whether any element of a bool tensor is true, as a scalar."""
    if not ctx.known_dims(predicate):
        return predicate
    largest = ctx.op.ReduceMax(ctx.cast(predicate, np.uint8), keepdims=0)
    return ctx.cast(ctx.with_dims(largest, ()), np.bool_)


def _where(ctx: Context, predicate: Value, x: Value, y: Value) -> Value:
    """`where` with a predicate over the leading axes of `x` and `y`."""
    rank, leading = len(ctx.known_dims(x)), len(ctx.known_dims(predicate))
    return ctx.op.Where(ctx.unsqueeze(predicate, list(range(leading, rank))), x, y)
