"""Control flow: `cond` and `switch` as If, `while` as Loop, `scan` as Scan, or as Loop where Scan cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Rules

from jax2onnx_lax._compat import is_literal, open_jaxpr, scan_counts, surely_positive
from jax2onnx_lax.control_flow.hoisting import hoist
from jax2onnx_lax.indexing.index_analysis import producer

__all__ = ["rules"]

rules = Rules()


# ---------------------------------------------------------------------------------------- cond


@rules.lower("cond", packed=True)
def cond(ctx: Any, index: Any, *operands: Any, branches: Sequence[Any], **_: Any) -> Any:
    """If; a switch is a balanced tree of them. As in XLA the last branch is for every index too large."""
    known = ctx.known(index)
    if known is not None:
        taken = branches[int(np.clip(known, 0, len(branches) - 1))]
        return ctx.inline(taken, *operands)
    return _choose(ctx, index, operands, branches, 0)


def _choose(ctx: Any, index: Any, operands: Sequence[Any], branches: Sequence[Any], first: int) -> tuple[Any, ...]:
    """The results of the one of `branches` whose number, counted from `first`, is `index`."""
    if len(branches) == 1:
        return tuple(ctx.inline(branches[0], *operands))
    if not ctx.avals_out:
        return ()
    middle = (len(branches) + 1) // 2
    lower, upper = ctx.subgraph("branch"), ctx.subgraph("branch")
    outs = _choose(lower, index, operands, branches[:middle], first)
    other = _choose(upper, index, operands, branches[middle:], first + middle)
    predicate = _at_least(ctx, index, first + middle)
    results = _emit(
        ctx, "If", predicate, then_branch=upper.graph(other), else_branch=lower.graph(outs), outputs=len(outs)
    )
    for value, one in zip(results, other, strict=True):
        if (dims := upper.dims(one)) is not None:
            ctx.with_dims(value, dims)
    return results


def _at_least(ctx: Any, index: Any, number: int) -> Any:
    """`index >= number` as a bool; where the index is a bool converted to 0 or 1, that bool itself."""
    cast = producer(index, "Cast")
    if number == 1 and cast is not None and ctx.dtype(cast.inputs[0]) == np.dtype(bool):
        return cast.inputs[0]
    return ctx.op.GreaterOrEqual(index, ctx.constant(number, like=index))


def _emit(ctx: Any, op_type: str, *inputs: Any, outputs: int, **attributes: Any) -> tuple[Any, ...]:
    """Emit a node with subgraphs; always a tuple of its outputs."""
    result = ctx.op(op_type, *inputs, outputs=outputs, **attributes)
    return (result,) if outputs == 1 else tuple(result)


# ---------------------------------------------------------------------------------------- loops in general


@dataclasses.dataclass(frozen=True)
class _Body:
    """The body of a loop: an open view of its jaxpr, and what its carried values do from step to step.

    `invariant` are the places of carried values that no step changes: they are not carried but used from
    outside. `counters` are those that each step increases by one: they follow from the iteration number.
    """

    jaxpr: Any
    carried: int
    invariant: frozenset[int]
    counters: frozenset[int]

    @property
    def states(self) -> list[int]:
        """The places of the values that really are carried."""
        return [k for k in range(self.carried) if k not in self.invariant | self.counters]


def _body(jaxpr: Any, first: int, carried: int, *, count: bool) -> _Body:
    """Look at a body whose carried values start at input `first`; `count` says that counters are wanted."""
    inner, _ = open_jaxpr(jaxpr)
    made_by = {var: eqn for eqn in inner.eqns for var in eqn.outvars}
    before, after = inner.invars[first : first + carried], inner.outvars[:carried]
    invariant = {k for k, (old, new) in enumerate(zip(before, after, strict=True)) if old is new}
    counters = {
        k
        for k, (old, new) in enumerate(zip(before, after, strict=True))
        if count and not is_literal(new) and _counts(made_by.get(new), old)
    }
    return _Body(jaxpr, carried, frozenset(invariant), frozenset(counters))


def _counts(eqn: Any, old: Any) -> bool:
    """Whether an equation adds one to the signed integer scalar `old`."""
    if eqn is None or eqn.primitive.name != "add" or old.aval.shape or np.dtype(old.aval.dtype).kind != "i":
        return False
    x, y = eqn.invars
    if x is not old:
        x, y = y, x
    return x is old and is_literal(y) and int(y.val) == 1


def _loop(
    ctx: Any,
    count: Any,
    condition: Any,
    avals: Sequence[Any],
    init: Sequence[Any],
    step: Callable[[Any, Any, list[Any]], tuple[Any, Sequence[Any], Sequence[Any]]],
) -> tuple[Any, ...]:
    """Loop: `step(body, iteration, state)` gives the condition (None to go on), the next state, and the
    values to stack. Returns the last state and the stacks."""
    body = ctx.subgraph("body")
    iteration = body.input("iteration", np.dtype(np.int64), ())
    go_on = body.input("condition", np.dtype(bool), ())
    state = [body.input_for(aval, "carry") for aval in avals]
    again, new, stacked = step(body, iteration, state)
    outputs = len(new) + len(stacked)
    if not outputs:
        return ()
    graph = body.graph([go_on if again is None else again, *new, *stacked])
    if condition is None and not init:  # the operator has two operands at least
        condition = ctx.constant(np.array(True))
    return _emit(ctx, "Loop", count, condition, *init, body=graph, outputs=outputs)


def _numbered(ctx: Any, iteration: Any, start: Any) -> Any:
    """The counter that is `start` in iteration 0."""
    number = ctx.cast(iteration, ctx.dtype(start))
    known = ctx.known(start)
    return number if known is not None and not known.any() else ctx.op.Add(number, start)


def _merge(body: _Body, init: Sequence[Any], states: Sequence[Any], counters: Callable[[Any], Any]) -> list[Any]:
    """All carried values: the states given, the invariant ones as they began, counters by `counters(start)`."""
    rest = iter(states)
    return [
        init[k] if k in body.invariant else counters(init[k]) if k in body.counters else next(rest)
        for k in range(body.carried)
    ]


# ---------------------------------------------------------------------------------------- while


@rules.lower("while", packed=True)
def while_loop(
    ctx: Any, *operands: Any, cond_nconsts: int, cond_jaxpr: Any, body_nconsts: int, body_jaxpr: Any, **_: Any
) -> Any:
    """Loop; without a condition but with a trip count where the condition compares a counter with a bound."""
    cond_consts, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    consts, init = rest[:body_nconsts], rest[body_nconsts:]
    body = _body(body_jaxpr, body_nconsts, len(init), count=True)
    bound = _bound(ctx, cond_jaxpr, cond_consts, init, body)
    if bound is not None:
        return _counted(ctx, body, consts, init, *bound)
    body = dataclasses.replace(body, counters=frozenset())
    return _conditional(ctx, body, cond_jaxpr, cond_consts, consts, init)


def _bound(ctx: Any, cond_jaxpr: Any, consts: Sequence[Any], init: Sequence[Any], body: _Body) -> Any:
    """(place of the counter, its bound) if the condition is `counter < bound` with a bound that stays."""
    inner, own = open_jaxpr(cond_jaxpr)
    if len(inner.eqns) != 1 or inner.eqns[0].primitive.name != "lt" or own:
        return None
    if inner.outvars[0] is not inner.eqns[0].outvars[0]:
        return None
    counter, bound = inner.eqns[0].invars
    places = {var: place - len(consts) for place, var in enumerate(inner.invars)}
    if is_literal(counter) or places[counter] not in body.counters:
        return None
    if is_literal(bound):
        return places[counter], ctx.constant(bound.val, dtype=np.dtype(bound.aval.dtype))
    place = places[bound]
    if place >= 0 and place not in body.invariant:
        return None
    return places[counter], (init[place] if place >= 0 else consts[place + len(consts)])


def _counted(ctx: Any, body: _Body, consts: Sequence[Any], init: Sequence[Any], place: int, bound: Any) -> Any:
    """A loop whose number of iterations is `bound` minus the start of the counter at `place`, or 0."""
    start, bound64 = ctx.cast(init[place], np.int64), ctx.cast(bound, np.int64)
    first, last = ctx.known(start), ctx.known(bound64)
    if first is not None and last is not None:
        count = ctx.constant(max(int(last) - int(first), 0), dtype=np.dtype(np.int64))
    elif first is not None and not first.any():
        count = bound64
    else:
        count = ctx.op.Sub(bound64, start)

    def step(sub: Any, iteration: Any, state: list[Any]) -> Any:
        values = _merge(body, init, state, lambda begin: _numbered(sub, iteration, begin))
        new = sub.inline(body.jaxpr, *consts, *values)
        return None, [new[k] for k in body.states], ()

    states = [init[k] for k in body.states]
    last_states = _loop(ctx, count, None, [ctx.avals_out[k] for k in body.states], states, step)
    return _merge(body, init, last_states, lambda begin: _end_of_counter(ctx, begin, count))


def _end_of_counter(ctx: Any, start: Any, count: Any) -> Any:
    iterations = ctx.op.Max(count, ctx.constant(0, dtype=np.dtype(np.int64))) if ctx.known(count) is None else count
    return _numbered(ctx, iterations, start)


def _conditional(
    ctx: Any, body: _Body, cond_jaxpr: Any, cond_consts: Sequence[Any], consts: Sequence[Any], init: Sequence[Any]
) -> Any:
    """A loop that evaluates its condition before the first and after every iteration.

    A predicate with axes (a loop under `vmap`) goes on while any of its elements does; those elements
    whose own loop has ended keep their values.
    """
    first = ctx.inline(cond_jaxpr, *cond_consts, *init)[0]
    batched = bool(open_jaxpr(cond_jaxpr)[0].outvars[0].aval.shape)
    avals = [ctx.avals_out[k] for k in body.states]

    def step(sub: Any, iteration: Any, state: list[Any]) -> Any:
        values = _merge(body, init, state, lambda begin: begin)
        results = sub.inline(body.jaxpr, *consts, *values)
        new = [results[k] for k in body.states]
        if batched:
            running = sub.inline(cond_jaxpr, *cond_consts, *values)[0]
            new = [_where(sub, running, a, b) for a, b in zip(new, state, strict=True)]
        again = sub.inline(cond_jaxpr, *cond_consts, *_merge(body, init, new, lambda begin: begin))[0]
        return _any(sub, again), new, ()

    states = [init[k] for k in body.states]
    last = _loop(ctx, None, _any(ctx, first), avals, states, step)
    return _merge(body, init, last, lambda begin: begin)


def _any(ctx: Any, predicate: Any) -> Any:
    if not ctx.dims(predicate):
        return predicate
    counted = ctx.op.ReduceMax(ctx.cast(predicate, np.uint8), keepdims=0)
    return ctx.cast(ctx.with_dims(counted, ()), np.bool_)


def _where(ctx: Any, predicate: Any, x: Any, y: Any) -> Any:
    """`where` with a predicate over the leading axes."""
    rank, own = len(ctx.dims(x)), len(ctx.dims(predicate))
    return ctx.op.Where(ctx.unsqueeze(predicate, list(range(own, rank))), x, y)


# ---------------------------------------------------------------------------------------- scan


@rules.lower("scan", packed=True)
def scan(ctx: Any, *operands: Any, jaxpr: Any, length: Any, reverse: bool, **params: Any) -> Any:
    """Scan; Loop where there is nothing to scan over or the length may be 0; the body itself, once for
    each step, for length 1 and where `unroll` asks for that."""
    num_consts, num_carry = scan_counts(params, len(operands))
    consts, rest = list(operands[:num_consts]), operands[num_consts:]
    init, xs = list(rest[:num_carry]), list(rest[num_carry:])
    if isinstance(length, int) and length == 0:
        return [*init, *(ctx.jax(lambda aval=a: jnp.zeros(aval.shape, aval.dtype)) for a in ctx.avals_out[num_carry:])]
    if isinstance(length, int) and (length == 1 or params.get("unroll", 1) >= length):
        return _unrolled(ctx, jaxpr, consts, init, xs, range(length)[:: -1 if reverse else 1])
    if not xs or not surely_positive(length):
        return _task(ctx, jaxpr, consts, init, xs, length, reverse, count=True).as_loop()
    hoisted = hoist(jaxpr, num_consts, num_carry, ctx.avals_in)
    if hoisted is not None:
        made = ctx.inline(hoisted.before, *consts, *xs)
        consts = [*consts, *made[: hoisted.fixed]]
        xs = [*(xs[i] for i in hoisted.kept), *made[hoisted.fixed :]]
        jaxpr = hoisted.body
    return _task(ctx, jaxpr, consts, init, xs, length, reverse, count=False).as_scan()


def _task(
    ctx: Any, jaxpr: Any, consts: Sequence[Any], init: list[Any], xs: list[Any], length: Any, reverse: bool, *, count: bool
) -> _Scan:
    body = _body(jaxpr, len(consts), len(init), count=count)
    return _Scan(ctx, body, consts, init, xs, length, reverse)


def _unrolled(
    ctx: Any, jaxpr: Any, consts: Sequence[Any], carry: list[Any], xs: list[Any], steps: Sequence[int]
) -> list[Any]:
    """The body for each of `steps` in turn; its results are stacked in the order of the inputs."""
    rows: dict[int, list[Any]] = {}
    count = len(carry)
    for step in steps:
        results = ctx.inline(jaxpr, *consts, *carry, *(_row(ctx, x, step, len(steps)) for x in xs))
        carry, rows[step] = list(results[:count]), list(results[count:])
    columns = zip(*(rows[step] for step in sorted(rows)), strict=True)
    return [*carry, *(ctx.concat([ctx.unsqueeze(y, [0]) for y in column], 0) for column in columns)]


def _row(ctx: Any, x: Any, step: int, length: int) -> Any:
    if length == 1:
        return ctx.squeeze(x, [0])
    known = ctx.known(x)
    if known is not None:
        return ctx.constant(known[step])
    return ctx.op.Gather(x, ctx.constant(step, dtype=np.dtype(np.int64)), axis=0, dims=tuple(ctx.dims(x)[1:]))


@dataclasses.dataclass(frozen=True)
class _Scan:
    """One scan equation. Its results are the carried values followed by the stacks."""

    ctx: Any
    body: _Body
    consts: Sequence[Any]
    init: list[Any]
    xs: list[Any]
    length: Any
    reverse: bool

    def as_scan(self) -> list[Any]:
        ctx, body = self.ctx, self.body
        sub = ctx.subgraph("body")
        avals = open_jaxpr(body.jaxpr)[0].invars
        carry_avals = [ctx.avals_out[k] for k in body.states]
        state = [sub.input_for(aval, "carry") for aval in carry_avals]
        slices = [sub.input_for(var.aval, "x") for var in avals[len(avals) - len(self.xs) :]]
        carried = _merge(body, self.init, state, lambda begin: begin)
        new = sub.inline(body.jaxpr, *self.consts, *carried, *slices)
        ys = new[body.carried :]
        outputs = [*(new[k] for k in body.states), *ys]
        if not outputs:
            return list(self.init)
        direction = 1 if self.reverse else 0
        results = _emit(
            ctx, "Scan", *(self.init[k] for k in body.states), *self.xs, body=sub.graph(outputs),
            num_scan_inputs=len(self.xs), outputs=len(outputs),
            scan_input_directions=[1] * len(self.xs) if direction else None,
            scan_output_directions=[1] * len(ys) if direction and ys else None,
        )  # fmt: skip
        return self._results(results, lambda begin: begin)

    def as_loop(self) -> list[Any]:
        ctx, body = self.ctx, self.body
        count = ctx.dim(self.length)
        rows: list[tuple[Any, ...]] = []  # the shapes of what each iteration adds

        def step(sub: Any, iteration: Any, state: list[Any]) -> Any:
            place = iteration
            if self.reverse and self.xs:
                place = sub.op.Sub(sub.op.Sub(count, sub.constant(1, like=count)), iteration)
            slices = [sub.op.Gather(x, place, axis=0, dims=tuple(ctx.dims(x)[1:])) for x in self.xs]
            carried = _merge(body, self.init, state, lambda begin: _numbered(sub, iteration, begin))
            new = sub.inline(body.jaxpr, *self.consts, *carried, *slices)
            rows.extend(tuple(ctx.dims(y) or ()) for y in new[body.carried :])
            return None, [new[k] for k in body.states], new[body.carried :]

        avals = [ctx.avals_out[k] for k in body.states]
        results = _loop(ctx, count, None, avals, [self.init[k] for k in body.states], step)
        flat = self._results(results, lambda begin: _numbered(ctx, count, begin))
        if self.reverse:
            stacked = zip(flat[body.carried :], rows, strict=True)
            flat[body.carried :] = [self._reversed(y, (self.length, *row)) for y, row in stacked]
        return flat

    def _results(self, results: Sequence[Any], counters: Callable[[Any], Any]) -> list[Any]:
        count = len(self.body.states)
        return [*_merge(self.body, self.init, results[:count], counters), *results[count:]]

    def _reversed(self, y: Any, dims: tuple[Any, ...]) -> Any:
        self.ctx.with_dims(y, dims)
        return self.ctx.op.Slice(
            y, self.ctx.ints([-1]), self.ctx.ints([-(2**63)]), self.ctx.ints([0]), self.ctx.ints([-1])
        )
