"""`scan` of a cell written out in JAX as LSTM, GRU or RNN."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Context, Dim, Jaxpr, Value
from jax2onnx_core.jax_types import Equation, Var
from jax2onnx_core.jaxprs import Dims, is_positive, is_static, open_jaxpr
from jax2onnx_core.lowering.physical import physical_type
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.final_names import common_name
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.forms import Form
from jax2onnx_graph.rewrite.patterns import scalar
from jax2onnx_graph.weights.absent import AbsentTensor

from jax2onnx_lax._called import called_equations
from jax2onnx_lax.recurrence._cell_bodies import CellBody, Model, ScannedTensor
from jax2onnx_lax.recurrence._cells import Cell, cells
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._sequential import Loop
from jax2onnx_lax.recurrence._steps import Steps
from jax2onnx_lax.recurrence._weights import Weights, weights_of
from jax2onnx_lax.reduce._branches import branch

__all__ = ["cell_scan"]

#: Operator → it with its default activations, it with others.
_FORMS = {
    "LSTM": (Form.LSTM, Form.LSTM_OF_OTHER_ACTIVATIONS),
    "GRU": (Form.GRU, Form.GRU_OF_OTHER_ACTIVATIONS),
    "RNN": (Form.RNN, Form.RNN_OF_OTHER_ACTIVATIONS),
}

_ACTIVATIONS = frozenset({"tanh", "logistic", "exp", "max"})


def cell_scan(
    ctx: Context,
    operands: Sequence[Value],
    jaxpr: Jaxpr,
    num_consts: int,
    num_carry: int,
    length: Dim,
    loop: Loop,
    *,
    reverse: bool,
) -> Sequence[Value]:
    """A scan as LSTM, GRU or RNN where the target has the operator and prefers it, if the new states of its step are

    1. c ← σ(f)·c + σ(i)·tanh(g); h ← σ(o)·tanh(c)            `LSTM`
    2. h ← (1 - σ(z))·tanh(n) + σ(z)·h, where n contains the product of σ(r) with a part affine in h, or a matrix
       product of σ(r)·h            `GRU`
    3. h ← tanh(n)            `RNN`

    Here σ is the logistic function, and i, f, g, o, r, z, n are affine in one row and the hidden state h.

    4. The formulas are compared as polynomials in their activations, so that it does not matter how sums and products
       are ordered or multiplied out; 1 - σ(x) is σ(-x), and 1 / (1 + exp(-x)) is σ(x).
    5. A tanh may be σ or max(·, 0) instead, where the target prefers that.
    6. Matrices may multiply from either side, be joined or apart, and their products may be arranged, split or joined
       in any way; products that are taken out of the loop are followed to their operand.
    7. States may be [batch…, H], or [H] of a sequence without a batch.
    8. The row is that of an input, or what a step computes without the states; that is computed for all steps before.
    9. What is collected may be computed of h before and after the step, and of rows; it is computed for all steps afterwards.
    10. Weights may be absent.
    11. Where sums have a state or a row twice, such as h in h + z·(n - h), infinities cancel in JAX, which they do not in
        the formulas above: the operator computes finite ones only, by an If whose other branch is the loop.

    All others are declined.

    Args:
      ctx: the context of the scan.
      operands: the constants, the first carry, and what each step reads its row of.
      jaxpr: the body.
      num_consts: the number of operands that are constants.
      num_carry: the number of operands that are the carry.
      length: the number of steps.
      loop: writes the scan as a loop, in the context that it gets, with the operands.
      reverse: whether the last step comes first.
    """
    if is_static(length) and length == 0:
        ctx.pass_on("it has no steps")
    if not _has_gates(jaxpr):
        ctx.pass_on("its step has no gates")
    try:
        steps = Steps.from_jaxpr(jaxpr, num_consts, num_carry)
        return _CellScan(ctx, steps, operands, num_consts, num_carry, length, reverse).lowered(loop)
    except UnsuitableError as reason:
        ctx.decline(str(reason))


def _has_gates(jaxpr: Jaxpr) -> bool:
    """Whether a body has an activation and a matrix product."""
    names = set(_names(open_jaxpr(jaxpr)[0].eqns))
    return bool(names & _ACTIVATIONS) and "dot_general" in names


def _names(equations: Sequence[Equation]) -> list[str]:
    """The names of the primitives in equations and in those that they call."""
    return [name for eqn in equations for name in (eqn.primitive.name, *_names(called_equations(eqn)))]


@dataclasses.dataclass(frozen=True)
class _Collected:
    """How the stacked results of a scan follow from the hidden state.

    Attributes:
      after: the variables that hold it after the step.
      old: the variable that holds it before the step.
      rest: computes the results that are others, from the constants, what is scanned, and the stacks of these variables.
      needs_old: whether it is given the stack of `old`.
    """

    after: Sequence[Var]
    old: Var
    rest: Jaxpr | None
    needs_old: bool = False


def _shifted(first: jax.Array, stack: jax.Array, *, reverse: bool) -> jax.Array:
    """The states before each step, from the first and those after each step."""
    return jnp.concatenate([stack[1:], first[None]] if reverse else [first[None], stack[:-1]])


def _are_infinite(*arrays: jax.Array) -> jax.Array:
    """Whether a sum of squares is infinite or NaN."""
    return ~jnp.isfinite(sum(jnp.sum(x * x) for x in arrays))


@dataclasses.dataclass(frozen=True)
class _CellScan:
    """A scan that may be one of a cell."""

    ctx: Context
    steps: Steps
    operands: Sequence[Value]
    num_consts: int
    num_carry: int
    length: Dim
    reverse: bool

    @property
    def consts(self) -> list[Value]:
        """The constants, which the carry that no step changes is among."""
        return [self.operands[i] for i in self.steps.given[0]]

    @property
    def xs(self) -> Sequence[Value]:
        """The arrays of which each step reads a row."""
        return self.operands[self.num_consts + self.num_carry :]

    def read(self, arrays: Mapping[Value, Array]) -> tuple[Cell, CellBody]:
        """The cell that the target prefers to the scan, and the steps as formulas.

        Args:
          arrays: the arrays of absent weights, where they are there now.
        """
        types = {v.aval.dtype for v in self.steps.carry}
        if len(self.steps.carry) > 2:
            raise UnsuitableError("it has more states than an LSTM")
        if len(types) != 1 or not all(jnp.issubdtype(dtype, np.floating) for dtype in types):
            raise UnsuitableError("its states are not of one floating-point type")
        body = CellBody(Model(self.ctx, arrays), self.steps, self.consts, self.xs)
        found = list(cells(body))
        if not found:
            raise UnsuitableError("its step is not that of an LSTM, GRU or RNN")
        cell = next(filter(self._is_preferred, found), None)
        if cell is None:
            raise UnsuitableError("the target prefers the Scan")
        return cell, body

    def _is_preferred(self, cell: Cell) -> bool:
        """Whether the target prefers the operator; one with unusual activations only if it is known to be faster."""
        (plain, unusual), target = _FORMS[cell.op_type], self.ctx.target
        if cell.unusual_activations is None:
            return target.prefers(plain, Form.SCAN) is plain
        return target.prefers(Form.SCAN, unusual) is unusual

    # -- writing ----------------------------------------------------------------------------------

    def lowered(self, loop: Loop) -> Sequence[Value]:
        """The results of the scan, by the operator; by `loop` where it would compute others."""
        cell, body = self.read({})
        weights = weights_of(cell, body)
        states = [array for index in cell.states if (array := self._first(index)) is not None]
        if not all(np.isfinite(array).all() for array in (*weights.arrays, *states)):
            raise UnsuitableError(
                "a weight or a first state is not finite, which the operators do not compute as JAX does"
            )
        if not self.ctx.supports(cell.op_type, body.dtype):
            raise UnsuitableError(f"the target has no {cell.op_type} for {body.dtype}")
        collected, values = self._collected(body, cell.states[0]), self._weights(weights)

        def by_operator(ctx: Context) -> list[Value]:
            return dataclasses.replace(self, ctx=ctx).written(cell, body.width, weights.sequence, values, collected)

        def looped(ctx: Context) -> list[Value]:
            results = zip(loop(ctx, *self.operands), ctx.avals_out, strict=True)
            return [ctx.with_dims(y, physical_type(aval)[1]) for y, aval in results]

        return branch(self.ctx, self._is_infinite(cell, body), usual=by_operator, rare=looped)

    def _is_infinite(self, cell: Cell, body: CellBody) -> Value | None:
        """Whether there may be infinities that cancel in JAX alone; None where there are none."""
        if self.ctx.guarantees(cell.op_type, body.dtype, "nan"):
            return None
        carry = [self.operands[place] for place in self.steps.given[1]]
        given = zip([*self.steps.carry, *self.steps.rows], [*carry, *self.xs], strict=True)
        repeated = self.steps.repeated
        arrays = {value: self.ctx.known(value) for v, value in given if v in repeated}
        open_ones = [value for value, array in arrays.items() if array is None or not np.isfinite(array).all()]
        return self.ctx.jax(_are_infinite, *open_ones) if open_ones else None

    def written(
        self, cell: Cell, width: int, sequence: ScannedTensor, weights: Sequence[Value], collected: _Collected
    ) -> list[Value]:
        """The results of the scan, by the operator."""
        layout = _Layout(self.ctx, self.length, self.steps.carry[0].aval.shape, width)
        y, *last = self._operator(cell, layout, self._sequence(sequence), weights)
        stacks = self._stacks(collected, layout.rows(y))
        carry = list(self.operands[: self.num_consts + self.num_carry])
        for index, state in zip(cell.states, last, strict=True):
            carry[self.steps.given[1][index]] = layout.state(state)
        return [*carry[self.num_consts :], *stacks]

    def _first(self, index: int) -> Array | None:
        """A first state, if it is known."""
        return self.ctx.known(self.operands[self.steps.given[1][index]])

    def _collected(self, body: CellBody, hidden: int) -> _Collected:
        """How the stacked results follow from the hidden state, the carry at the place `hidden`.

        Raises:
          UnsuitableError: these results need more than that.
        """
        shape, new, old = self.steps.carry[0].aval.shape, body.after[hidden], self.steps.carry[hidden]
        made = [
            v for eqn in self.steps.equations for v in eqn.outvars if v in self.steps.on_carry and v.aval.shape == shape
        ]
        after = [v for v in made if body.reading(v) == new]
        others = [v for v in self.steps.results if v not in after]
        if not others:
            return _Collected(after, old, None)
        known = [*self.steps.rows, *after]
        with contextlib.suppress(UnsuitableError):  # the old state may be needed, too
            return _Collected(after, old, self.steps.for_all_steps(others, known, self.length))
        if not is_positive(self.length):
            raise UnsuitableError("it collects states before its steps, of which there may be none")
        rest = self.steps.for_all_steps(others, [*known, old], self.length)
        return _Collected(after, old, rest, needs_old=True)

    def _stacks(self, collected: _Collected, stack: Value) -> list[Value]:
        """The stacked results, from the hidden states after all steps."""
        if collected.rest is None:
            return [stack] * len(self.steps.results)
        given = [*self.consts, *self.xs, *[stack] * len(collected.after)]
        if collected.needs_old:
            first = self.operands[self.steps.given[1][self.steps.carry.index(collected.old)]]
            given.append(self.ctx.jax(_shifted, first, stack, reverse=self.reverse))
        others = iter(self.ctx.inline(collected.rest, *given))
        return [stack if v in collected.after else next(others) for v in self.steps.results]

    def _sequence(self, tensor: ScannedTensor) -> Value:
        """The sequence that the operator reads, `[T, …, I]`."""
        if isinstance(tensor.source, Value):
            return self.ctx.transpose(tensor.source, tensor.perm)
        before = self.steps.for_all_steps([tensor.source], self.steps.rows, self.length)
        (x,) = self.ctx.inline(before, *self.consts, *self.xs)
        return x

    def _weights(self, weights: Weights) -> list[Value]:
        """The operands for the weights; those made of absent ones are made when these are there."""

        def made(index: int, sources: Sequence[Value], *arrays: Array) -> Array:
            if not any(isinstance(constant_tensor(source), AbsentTensor) for source in sources):
                return weights.arrays[index]
            return weights_of(*self.read(dict(zip(sources, arrays, strict=True)))).arrays[index]

        values = []
        for index, (array, sources) in enumerate(zip(weights.arrays, weights.sources, strict=True)):
            value = self.ctx.fold(
                functools.partial(made, index, sources), *sources, dims=array.shape, dtype=array.dtype, name=common_name(sources)
            )  # fmt: skip
            assert value is not None, "all sources are constants"
            values.append(value)
        return values

    def _operator(self, cell: Cell, layout: _Layout, x: Value, weights: Sequence[Value]) -> Sequence[Value]:
        """The results of the operator: [T, 1, B, H], and the last states [1, B, H]."""
        ctx, states = self.ctx, [self.operands[self.steps.given[1][index]] for index in cell.states]
        initial = [None if _is_zero(ctx, state) else layout.as_state(state) for state in states]
        y, *last = ctx.op.several(
            cell.op_type, layout.as_rows(x), *weights, *([None, *initial] if any(initial) else []),
            outputs=1 + len(states), hidden_size=layout.hidden, dims=(self.length, 1, layout.batch, layout.hidden),
            direction="reverse" if self.reverse else None, linear_before_reset=None if cell.inner is None else 1,
            activations=None if cell.unusual_activations is None else list(cell.unusual_activations),
        )  # fmt: skip
        return y, *(ctx.with_dims(state, (1, layout.batch, layout.hidden)) for state in last)


def _is_zero(ctx: Context, state: Value) -> bool:
    known = ctx.known(state)
    return scalar(state) == 0 or (known is not None and not known.any())


class _Layout:
    """The axes of states and rows `[…, batch…, features]` for an operator that has one axis for the batch."""

    def __init__(self, ctx: Context, length: Dim, dims: Dims, hidden: int) -> None:
        self._ctx, self._length, self._dims, self.hidden = ctx, length, dims, hidden
        self.batch: Dim = math.prod(dims[:-1])

    def as_rows(self, x: Value) -> Value:
        """[T, B, I] of [T, batch…, I]."""
        return self._merged(x, self._length)

    def as_state(self, state: Value) -> Value:
        """[1, B, H] of [batch…, H]."""
        return self._merged(self._ctx.unsqueeze(state, [0]), 1)

    def _merged(self, x: Value, first: Dim) -> Value:
        if len(self._dims) == 2:
            return x
        if len(self._dims) == 1:
            return self._ctx.unsqueeze(x, [1])
        return self._ctx.reshape(x, (first, self.batch, self._ctx.known_dims(x)[-1]))

    def rows(self, y: Value) -> Value:
        """[T, batch…, H] of [T, 1, B, H]."""
        if len(self._dims) > 2:
            return self._ctx.reshape(y, (self._length, *self._dims))
        return self._ctx.squeeze(y, [1] if len(self._dims) == 2 else [1, 2])

    def state(self, state: Value) -> Value:
        """[batch…, H] of [1, B, H]."""
        if len(self._dims) > 2:
            return self._ctx.reshape(state, self._dims)
        return self._ctx.squeeze(state, [0] if len(self._dims) == 2 else [0, 1])
