"""`scan` as Scan; as Loop where it has no inputs or may have no iterations; as the body itself where it is unrolled."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Composites, Context, Dim, Jaxpr, Replacement, Rules, Value
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.jaxprs import eval_jaxpr, is_positive, is_static, is_symbolic_dim, open_jaxpr, scan_counts, struct
from jax2onnx_core.lowering.context import Subgraph
from jax2onnx_core.lowering.physical import physical_type

from jax2onnx_lax.control_flow._carried import any_narrow, apart, together
from jax2onnx_lax.control_flow._hoisting import adds_weighted_products, hoist
from jax2onnx_lax.control_flow._indexed_rows import ScanOfRows, scan_of_rows
from jax2onnx_lax.control_flow._loop_bodies import IterationResults, LoopBody, counter_after, emit_loop
from jax2onnx_lax.control_flow._sums import sums_behind
from jax2onnx_lax.indexing._index_arrays import dimension
from jax2onnx_lax.integers._domain import Integers, fitted
from jax2onnx_lax.integers._values import integers, set_integers
from jax2onnx_lax.recurrence._sequential import SEQUENTIAL, Loop

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()

#: In so few steps no form is faster than the loop.
_FEW_STEPS = 4
#: So many equations at most are written one after another where a target has no loops.
_MOST_EQUATIONS = 4096


@composites.call("jax.lax:scan", name="jax.lax.scan")
def scan_of_symbolic_length(
    f: Callable[..., PyTree],
    init: PyTree,
    xs: PyTree = None,
    length: Dim | None = None,
    *args: object,
    **options: object,
) -> Replacement | None:
    """JAX takes numbers only for a `length`; a symbolic one need not be given, or is that of a counter where nothing has it."""
    sizes = [x.shape[0] for x in jax.tree_util.tree_leaves(xs)]
    if not is_symbolic_dim(length) or any(size != length for size in sizes):
        return None
    if not sizes:
        return Replacement(jax.lax.scan(lambda c, _: f(c, xs), init, jnp.arange(length), None, *args, **options))
    return Replacement(jax.lax.scan(f, init, xs, None, *args, **options))


@composites.call("jax.lax:fori_loop", name="jax.lax.fori_loop")
def fori_loop_of_symbolic_length(
    lower: Dim, upper: Dim, body_fun: Callable[..., PyTree], init_val: PyTree, *args: object, **options: object
) -> Replacement | None:
    """JAX makes a `while` of a loop up to a symbolic dimension; the same as a scan is one that recurrences are looked for in."""
    if not is_symbolic_dim(upper) or not isinstance(lower, int) or not is_positive(upper - lower):
        return None

    def step(carry: tuple[jax.Array, PyTree], _: jax.Array) -> tuple[tuple[jax.Array, PyTree], None]:
        return (carry[0] + 1, body_fun(carry[0], carry[1])), None

    numbers = jnp.arange(lower, upper)
    return Replacement(jax.lax.scan(step, (jnp.asarray(lower, numbers.dtype), init_val), numbers)[0][1])


@rules.lower("scan", physical=True)
def scan(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, length: Dim, reverse: bool, unroll: int, divided: object = True,
    **params: object,
) -> Sequence[Value]:  # fmt: skip
    """The last carry, then the stacked results `[length, …]`.

    A scan of one iteration, or one that `unroll` asks to unroll completely, is written as its body, and so are those of few equations
    for targets without loops; otherwise an ONNX Scan is, after what need not be computed step by step has been taken out. Scan needs an input and an iteration:
    where these are not certain a Loop is written. Unless `divided`, all of the body stays in it.
    """
    num_consts, num_carry = scan_counts(params, len(operands))
    inner = open_jaxpr(jaxpr)[0]
    handed = [v.aval for v in inner.invars[num_consts:]]
    if any(jnp.issubdtype(x.dtype, jnp.complexfloating) for x in handed) or any_narrow([*handed, *ctx.avals_out]):
        traced = _handing_on(jaxpr, num_consts, num_carry, length, reverse=reverse, unroll=unroll)
        return ctx.inline(jax.make_jaxpr(traced)(*map(struct, ctx.avals_in)), *operands)
    whole = _Scan(
        ctx, LoopBody.attempted(ctx, jaxpr, num_consts, num_carry), operands[:num_consts],
        operands[num_consts : num_consts + num_carry], operands[num_consts + num_carry :], length, reverse,
    )  # fmt: skip
    if is_static(length) and length == 0:
        return whole.without_iterations()
    if is_static(length) and (length == 1 or unroll >= length):
        return whole.unrolled(length)
    if not whole.xs or not is_positive(length):
        return whole.as_loop()
    return whole.divided(num_consts) if divided else whole.as_scan()


def _handing_on(
    jaxpr: Jaxpr, num_consts: int, num_carry: int, length: Dim, *, reverse: bool, unroll: int
) -> Callable[..., list[jax.Array]]:
    """The same scan with its carry, inputs and results `apart`, which each step else takes out and puts in."""
    inner, _ = open_jaxpr(jaxpr)
    given, dtypes = ([v.aval.dtype for v in vs] for vs in (inner.invars[num_consts:], inner.outvars))

    def scanned(*operands: jax.Array) -> list[jax.Array]:
        consts, init, xs = operands[:num_consts], operands[num_consts:][:num_carry], operands[num_consts + num_carry :]

        def step(state: PyTree, row: PyTree) -> tuple[PyTree, PyTree]:
            made = [apart(y) for y in eval_jaxpr(jaxpr, *consts, *map(together, [*state, *row[: len(xs)]], given))]
            return made[:num_carry], made[num_carry:]

        first, rows = (list(map(apart, x)) for x in (init, xs))
        if not rows and not is_static(length):  # of which jax.lax.scan takes no number
            rows = [jnp.arange(length)]
        last, stacks = jax.lax.scan(step, first, rows, None if rows else length, reverse=reverse, unroll=unroll)
        return list(map(together, [*last, *stacks], dtypes))

    return scanned


@rules.lower("scan", physical=True)
def scan_of_sums(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, length: Dim, reverse: bool, unroll: int, **params: object
) -> Sequence[Value]:
    """A scan that only adds up products, as gradients of recurrences do, with one product for all steps behind it."""
    num_consts, num_carry = scan_counts(params, len(operands))
    if len(operands) == num_consts + num_carry or not is_positive(length):
        ctx.pass_on("it has no inputs, or may have no steps")
    if _has_few_steps(length, unroll):
        ctx.pass_on("it has few steps")
    avals = list(map(struct, ctx.avals_in))
    traced = ctx.attempt(
        lambda: sums_behind(jaxpr, num_consts, num_carry, avals, reverse=reverse, unroll=unroll),
        "the sums behind the loop",
    )
    if traced is None:
        ctx.pass_on("it adds up no products")
    return ctx.inline(traced, *operands)


def _has_few_steps(length: Dim, unroll: int) -> bool:
    """Whether no form for many steps at once pays."""
    return is_static(length) and (length < _FEW_STEPS or unroll >= length)


def _loop(jaxpr: Jaxpr, length: Dim, reverse: bool, unroll: int, params: Mapping[str, object]) -> Loop:
    """Writes a scan as a loop, where it is a branch beside another form."""

    def loop(ctx: Context, *operands: Value) -> Sequence[Value]:
        return scan(ctx, *operands, jaxpr=jaxpr, length=length, reverse=reverse, unroll=unroll, **params)

    return loop


@rules.lower("scan", physical=True)
def scan_of_linear_states(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, length: Dim, reverse: bool, unroll: int, **params: object
) -> Sequence[Value]:
    """The same of scans with states that are linear recurrences, for many steps at once; it is tried first."""
    from jax2onnx_lax.recurrence.linear_scans import ScanBody, linear_scan  # thirty modules, which only a scan needs

    if not is_positive(length) or _has_few_steps(length, unroll):
        ctx.pass_on("it has few steps")
    num_consts, num_carry = scan_counts(params, len(operands))
    known = LoopBody.analyse(jaxpr, num_consts, num_carry)
    if adds_weighted_products(jaxpr, num_consts, num_carry, known.states):
        ctx.pass_on("it adds up products, which are computed before it")

    loop = _loop(jaxpr, length, reverse, unroll, params)
    body = ScanBody(jaxpr, num_consts, num_carry, known.invariant, known.counters, length, reverse)
    return linear_scan(ctx, loop, operands, body)


@rules.lower("scan", physical=True)
def scan_of_numbered_terms(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, length: Dim, unroll: int, **params: object
) -> Sequence[Value]:
    """A loop that adds up products, which it numbers by a counter, as a scan over the numbers: the products are computed at once."""
    num_consts, num_carry = scan_counts(params, len(operands))
    known = LoopBody.analyse(jaxpr, num_consts, num_carry)
    if len(operands) != num_consts + num_carry or not known.counters:
        ctx.pass_on("it has inputs, or no counter")
    if not is_static(length) or _has_few_steps(length, unroll):
        ctx.pass_on("it has few steps")
    if not adds_weighted_products(jaxpr, num_consts, num_carry, known.states):
        ctx.pass_on("it does more than to add up products times something")
    starts = {k: ctx.known(operands[num_consts + k]) for k in known.counters}
    numbers = {k: np.arange(length, dtype=start.dtype) + start for k, start in starts.items() if start is not None}
    if len(numbers) != len(starts):
        ctx.decline("where its counter starts is not known")

    def over_numbers(*values: jax.Array) -> list[jax.Array]:
        consts, init = values[:num_consts], values[num_consts:]

        def step(states: list[jax.Array], row: dict[int, jax.Array]) -> tuple[list[jax.Array], None]:
            rest = iter(states)
            carry = [row[k] if k in row else next(rest) for k in range(num_carry)]
            new = eval_jaxpr(jaxpr, *consts, *carry)
            return [new[k] for k in range(num_carry) if k not in row], None

        last, _ = jax.lax.scan(step, [x for k, x in enumerate(init) if k not in numbers], numbers)
        after = iter(last)
        return [init[k] + length if k in numbers else next(after) for k in range(num_carry)]

    return ctx.inline(jax.make_jaxpr(over_numbers)(*map(struct, ctx.avals_in)), *operands)


@rules.lower("scan", physical=True)
def scan_of_cells(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, length: Dim, reverse: bool, unroll: int, **params: object
) -> Sequence[Value]:
    """A scan of a recurrent cell as the operator of it."""
    from jax2onnx_lax.recurrence.cell_scans import cell_scan

    num_consts, num_carry = scan_counts(params, len(operands))
    loop = _loop(jaxpr, length, reverse, unroll, params)
    return cell_scan(ctx, operands, jaxpr, num_consts, num_carry, length, loop, reverse=reverse)


@rules.lower("scan", physical=True)
def scan_of_indexed_rows(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, length: Dim, reverse: bool, unroll: int, **params: object
) -> Sequence[Value]:
    """A scan whose body reads and writes rows at its counter, as `fori_loop` does, over these rows; it is tried before the others."""
    if _has_few_steps(length, unroll):
        ctx.pass_on("it has few steps")
    num_consts, num_carry = scan_counts(params, len(operands))
    init = operands[num_consts : num_consts + num_carry]
    known = {k: array for k, x in enumerate(init) if (array := ctx.known(x)) is not None}
    starts = {k: int(x) for k, x in known.items() if not x.shape and x.dtype.kind in "iu"}
    whole = ScanOfRows(jaxpr, num_consts, num_carry, length, reverse)
    traced = scan_of_rows(whole, starts, [struct(aval) for aval in ctx.avals_in])
    if traced is None:
        ctx.pass_on("its body indexes no rows by a counter")
    return ctx.inline(traced, *operands)


@rules.lower(SEQUENTIAL, physical=True)
def scan_sequentially(ctx: Context, *operands: Value, num_carry: int, divided: bool) -> Sequence[Value]:
    """A scan in which no linear recurrence is looked for, as it is part of the computation of one."""
    jaxpr, inputs = ctx.body
    inner, consts = open_jaxpr(jaxpr)
    (eqn,) = inner.eqns
    values = dict(zip([*inner.constvars, *inner.invars], [*map(ctx.constant, consts), *inputs], strict=True))
    return scan(ctx, *(values[v] for v in eqn.invars), **eqn.params, divided=divided)


@dataclasses.dataclass(frozen=True)
class _Scan:
    """A scan equation: `consts`, first carry `init`, inputs `xs` `[length, …]`.

    Each way to write it returns the last carry and the stacked results.
    """

    ctx: Context
    body: LoopBody
    consts: Sequence[Value]
    init: Sequence[Value]
    xs: Sequence[Value]
    length: Dim
    reverse: bool

    def without_iterations(self) -> list[Value]:
        """The results of a scan without iterations: the first carry, and stacks of length 0."""
        stacked = self.ctx.avals_out[self.body.num_carry :]
        return [*self.init, *(self.ctx.jax(functools.partial(jnp.zeros, a.shape, a.dtype)) for a in stacked)]

    def unrolled(self, length: int) -> list[Value]:
        """The body `length` times; results are stacked in the order of the inputs."""
        ctx, carry = self.ctx, self.init
        rows: dict[int, Sequence[Value]] = {}
        for step in range(length)[:: -1 if self.reverse else 1]:
            results = ctx.inline(self.body.jaxpr, *self.consts, *carry, *(_row(ctx, x, step, length) for x in self.xs))
            carry, rows[step] = results[: self.body.num_carry], results[self.body.num_carry :]
        columns = zip(*(rows[step] for step in range(length)), strict=True)
        return [*carry, *(ctx.concat([ctx.unsqueeze(y, [0]) for y in column], 0) for column in columns)]

    def divided(self, num_consts: int) -> Sequence[Value]:
        """Emit an ONNX Scan of the equations that the carry needs; the rest of the body runs before and after it, for all steps at once."""
        ctx, body = self.ctx, self.body
        avals = [struct(v.aval) for v in open_jaxpr(body.jaxpr)[0].invars]
        rows = [jax.ShapeDtypeStruct((self.length, *x.shape), x.dtype) for x in avals[num_consts + body.num_carry :]]
        given = body.jaxpr, num_consts, body.num_carry, [*avals[: num_consts + body.num_carry], *rows]
        parts = ctx.attempt(lambda: ctx.once(lambda: hoist(*given), "hoist", *given), "the division of the body")
        if parts is None:
            return self.as_scan()
        made = ctx.inline(parts.before, *self.consts, *self.xs)
        consts = [*self.consts, *made[: parts.num_invariant]]
        xs = [*(self.xs[i] for i in parts.kept), *made[parts.num_invariant :]]
        body = LoopBody.attempted(ctx, parts.body, len(consts), self.body.num_carry)
        results = dataclasses.replace(self, body=body, consts=consts, xs=xs).as_scan()
        carry, stacked = results[: body.num_carry], results[body.num_carry :]
        rows = open_jaxpr(body.jaxpr)[0].outvars[body.num_carry :]
        for stack, row in zip(stacked, rows, strict=True):
            ctx.set_dims(stack, (self.length, *physical_type(row.aval)[1]))
        return [*carry, *ctx.inline(parts.after, *self.consts, *made, *self.xs, *stacked)]

    def _written_out(self) -> list[Value] | None:
        """All iterations one after another, where the target has no loops and they have few equations together; else None."""
        length, equations = self.length, len(open_jaxpr(self.body.jaxpr)[0].eqns)
        if not is_static(length) or any(self.ctx.supports(loop, np.float32) for loop in ("Loop", "Scan")):
            return None
        return self.unrolled(length) if length * equations <= _MOST_EQUATIONS else None

    def as_scan(self) -> Sequence[Value]:
        """An ONNX Scan; it numbers no iterations, so that counters are carried like other values."""
        if (written := self._written_out()) is not None:
            return written
        body, sub = self.body.without_counters(), self.ctx.subgraph("body")
        invars = open_jaxpr(body.jaxpr)[0].invars
        states = [sub.input_for(self.ctx.avals_out[k], "carry") for k in body.states]
        slices = [sub.input_for(var.aval, "x") for var in invars[len(invars) - len(self.xs) :]]
        for x, row in zip(self.xs, slices, strict=True):
            if self.ctx.dtype(x).kind in "iu":
                found = integers(self.ctx, x)
                set_integers(row, Integers(found.low, found.high))
        self._state_counters(dict(zip(body.states, states, strict=True)))
        carry = body.carry(self.init, states, lambda start: start)
        new = sub.inline(body.jaxpr, *self.consts, *carry, *slices)
        outputs = [*(new[k] for k in body.states), *new[body.num_carry :]]
        if not outputs:
            return self.init
        num_stacked = len(outputs) - len(body.states)
        results = self.ctx.op.several(
            "Scan", *(self.init[k] for k in body.states), *self.xs, outputs=len(outputs), body=sub.graph(outputs),
            num_scan_inputs=len(self.xs),
            scan_input_directions=[1] * len(self.xs) if self.reverse else None,
            scan_output_directions=[1] * num_stacked if self.reverse and num_stacked else None,
        )  # fmt: skip
        return self._results(body, results, lambda start: start)

    def _state_counters(self, states: Mapping[int, Value]) -> None:
        """State between which numbers those of a body's inputs are that are counters, by their position in the carry."""
        for k in self.body.counters:
            start = integers(self.ctx, self.init[k])
            known = Integers(start.low, start.high + self.length - 1)
            set_integers(states[k], fitted(known, self.ctx.avals_out[k]))

    def as_loop(self) -> list[Value]:
        """A Loop, which numbers its iterations: inputs are gathered, counters computed from the number."""
        if (written := self._written_out()) is not None:
            return written
        ctx, body = self.ctx, self.body
        count = dimension(ctx, self.length)

        def step(sub: Subgraph, iteration: Value, states: list[Value]) -> IterationResults:
            slices = self._slices(sub, iteration, count)
            carry = body.carry(self.init, states, lambda start: counter_after(sub, start, iteration))
            new = sub.inline(body.jaxpr, *self.consts, *carry, *slices)
            return IterationResults(None, [new[k] for k in body.states], new[body.num_carry :])

        avals, init = [ctx.avals_out[k] for k in body.states], [self.init[k] for k in body.states]
        results = emit_loop(ctx, count, None, avals, init, step)
        flat = self._results(body, results, lambda start: counter_after(ctx, start, count))
        stacked = zip(flat[body.num_carry :], ctx.avals_out[body.num_carry :], strict=True)
        return [*flat[: body.num_carry], *(self._stack(y, physical_type(aval)[1]) for y, aval in stacked)]

    def _slices(self, sub: Subgraph, iteration: Value, count: Value) -> list[Value]:
        """The inputs of one iteration of a Loop of `count` iterations."""
        if self.reverse and self.xs:
            iteration = sub.op.Sub(sub.op.Sub(count, sub.constant(1, like=count)), iteration)
        return [sub.op.Gather(x, iteration, axis=0, dims=self.ctx.known_dims(x)[1:]) for x in self.xs]

    def _results(self, body: LoopBody, results: Sequence[Value], counter: Callable[[Value], Value]) -> list[Value]:
        """The whole carry and the stacks, from the results of the operator."""
        count = len(body.states)
        return [*body.carry(self.init, results[:count], counter), *results[count:]]

    def _stack(self, y: Value, dims: Sequence[Dim]) -> Value:
        """A stack of a Loop, as the scan's result of shape `dims`."""
        ctx = self.ctx
        if not is_positive(self.length) and not all(map(is_static, dims[1:])):
            # Without iterations, nothing tells the Loop how long the other axes are.
            y = ctx.op.Reshape(y, ctx.shape(dims), dims=dims, allowzero=1)
        if not self.reverse:
            return y
        ctx.set_dims(y, dims)
        return ctx.op.Slice(y, ctx.ints([-1]), ctx.ints([-(2**63)]), ctx.ints([0]), ctx.ints([-1]))


def _row(ctx: Context, x: Value, step: int, length: int) -> Value:
    """Row `step` of `x` `[length, …]`."""
    if length == 1:
        return ctx.squeeze(x, [0])
    known = ctx.known(x)
    if known is not None:
        return ctx.constant(known[step])
    return ctx.op.Gather(x, ctx.constant(step, dtype=np.int64), axis=0, dims=ctx.known_dims(x)[1:])
