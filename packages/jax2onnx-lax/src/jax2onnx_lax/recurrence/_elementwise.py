"""`ElementwiseSolution`: states each of whose elements is a recurrence `h' = a h + b` of its own, in blocks of steps.

All blocks run side by side: from zero, with the products of their decays. From these follow the states at the beginnings of the
blocks, one after another, and from both the states of all steps. No logarithm and no quotient is taken.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.recurrence._affine_updates import AffineUpdate
from jax2onnx_lax.recurrence._bounds import is_moderate
from jax2onnx_lax.recurrence._carries import read_stack
from jax2onnx_lax.recurrence._sequential import sequential_scan
from jax2onnx_lax.recurrence._values import BatchedArray, Term, Value, product, size_of

__all__ = ["ElementwiseSolution", "SumSolution", "states_before"]

_Pair = tuple[jax.Array, jax.Array]

#: Steps of a block where the number of all steps is symbolic.
_BLOCK = 32

#: So many steps of a large state, and steps from one block to the next one, are written one after another: a loop costs more.
_FEW, _FEW_BLOCKS = 16, 4

#: Elements of a state that are worth an operation of a single step.
_LARGE = 2048

#: Elements of a state whose arrays for all steps need not be divided; of all states that are computed at once; and the most steps of these.
_SMALL, _CACHED, _LONGEST = 256, 2**17, 512

#: The greatest absolute value of a decay in blocks, which exceeds 1 by what roundings do: products of such decays stay in range.
_GREATEST_DECAY = 1.00001


@dataclasses.dataclass(frozen=True, eq=False)
class _Recurrence:
    """A state each of whose elements is a recurrence of its own.

    Attributes:
      form: the update of the state in a step.
      init: the first state.
      length: the number of steps.
    """

    form: AffineUpdate
    init: jax.Array
    length: Dim

    @functools.cached_property
    def _update(self) -> jax.Array:
        """The addends of the state in all steps, `[length, ...]`."""
        form, dtype, dims = self.form, self.init.dtype, (self.length, *self.form.shape)
        if not form.update:
            return jnp.zeros(dims, dtype)
        found: BatchedArray = Value(form.shape, dtype, terms=form.update).array()
        return jnp.broadcast_to(found.array if found.timed else found.array[None], dims)


class ElementwiseSolution(_Recurrence):
    """The states of all steps."""

    @property
    def segment(self) -> int | None:
        """The number of steps to compute at once: their arrays stay in the caches of a processor, and their operations are worth a call."""
        size = max(1, size_of(self.form.shape))
        if size <= _SMALL:
            return None
        return _FEW if size >= _LARGE else min(_LONGEST, max(_FEW, _CACHED // size // _FEW * _FEW))

    @functools.cached_property
    def after(self) -> jax.Array:
        """The states after each step, [T, ...]."""
        if self._is_short:
            return jnp.stack(_written_out(self._decay.in_steps(self.length), self._update, self.init))
        return _states_in_blocks(self._decay, self._update, self.init)

    @property
    def _is_short(self) -> bool:
        return is_static(self.length) and self.length <= _FEW

    @functools.cached_property
    def before(self) -> jax.Array:
        """The states before each step, [T, ...]."""
        return jnp.concatenate([self.init[None], self.after[:-1]])

    @property
    def last(self) -> jax.Array:
        """The state after all steps."""
        return self.after[-1]

    def read(self, term: Term) -> BatchedArray:
        """See `Solution`."""
        return read_stack(term, self.after if term.when == "after" else self.before)

    @property
    def conditions(self) -> list[jax.Array]:
        """Whether the results are those of the loop: no sum in a block is infinite, and no product leaves the range.

        They take what the loop is given, not what it computes.
        """
        if self._is_short:
            return []
        is_shrinking = jnp.all(jnp.abs(self._decay.array) <= _GREATEST_DECAY)
        return [is_shrinking, is_moderate(self._update, self.init)]

    @functools.cached_property
    def _decay(self) -> _Decay:
        dtype = self.init.dtype
        if not self.form.decay:
            return _Decay(jnp.zeros((1,) * (1 + len(self.form.shape)), dtype), False)
        parts = [product(term.factors, self.form.axes, term.scale, dtype=dtype) for term in self.form.decay]
        arrays = [part.array if part.timed else part.array[None] for part in parts]
        return _Decay(functools.reduce(jnp.add, arrays).astype(dtype), any(part.timed for part in parts))


class SumSolution(_Recurrence):
    """States that each step adds something to: running sums, in the order of the steps."""

    segment: None = None
    conditions: Sequence[jax.Array] = ()

    @staticmethod
    def takes(form: AffineUpdate) -> bool:
        """Whether the decay is the number 1, and the update has all axes of the state."""
        is_number = not any(term.factors for term in form.decay)
        return form.is_plain and is_number and sum(term.scale for term in form.decay) == 1

    @functools.cached_property
    def _all(self) -> jax.Array:
        """The first state, and those after each step."""
        return jnp.cumsum(jnp.concatenate([self.init[None], self._update]), 0)

    @property
    def last(self) -> jax.Array:
        """The state after all steps: the last of all where these are read, else one sum."""
        if "_all" in vars(self):
            return self._all[-1]
        return self.init + jnp.sum(self._update, 0, dtype=self.init.dtype)

    def read(self, term: Term) -> BatchedArray:
        """See `Solution`."""
        return read_stack(term, self._all[1:] if term.when == "after" else self._all[:-1])


@dataclasses.dataclass(frozen=True, eq=False)
class _Decay:
    """The decays in all steps.

    Attributes:
      array: `[T, ...]`, whose axes but the first may be of size 1; `[1, ...]` where all steps have the same.
      timed: whether they have not.
    """

    array: jax.Array
    timed: bool

    def in_steps(self, length: Dim) -> jax.Array:
        """The decays as `[length, ...]`."""
        return jnp.broadcast_to(self.array, (length, *self.array.shape[1:]))


def states_before(decay: jax.Array, update: jax.Array, init: jax.Array) -> jax.Array:
    """The states before the steps `h[t + 1] = decay[t] h[t] + update[t]`, which are computed one after another, `[T, ...]`.

    Args:
      decay: [T, ...], whose other axes may be of size 1.
      update: [T, ...].
      init: the state before the first step, [...].
    """
    if is_static(update.shape[0]) and update.shape[0] <= _FEW_BLOCKS:
        return jnp.stack([init, *_written_out(decay[:-1], update[:-1], init)])

    before: jax.Array = sequential_scan(lambda h, row: (h * row[0] + row[1], h), init, (decay, update))[1]
    return before


def _written_out(decay: jax.Array, update: jax.Array, state: jax.Array) -> list[jax.Array]:
    """The states after each step, of few steps."""
    states = []
    for t in range(update.shape[0]):
        state = state * decay[t] + update[t]
        states.append(state)
    return states


def _states_in_blocks(decay: _Decay, update: jax.Array, init: jax.Array) -> jax.Array:
    """The same by blocks side by side."""
    length = update.shape[0]
    size = _steps_of_block(length)
    count = (length + size - 1) // size
    rows = _blocks(update, count, size, 0.0)
    factors = _blocks(decay.array, count, size, 1.0) if decay.timed else decay.array
    products, sums = _from_zero(factors, rows, timed=decay.timed)
    total = jnp.broadcast_to(products[-1], (count, *products.shape[2:]))
    starts = states_before(total, sums[-1], init)
    states = jnp.moveaxis(sums + products * starts, 0, 1)
    return states.reshape(count * size, *update.shape[1:])[:length]


def _steps_of_block(length: Dim) -> int:
    """About as many steps of a block as there are blocks."""
    if not is_static(length):
        return _BLOCK
    return 1 << round((int(length) - 1).bit_length() / 2)


def _from_zero(decay: jax.Array, update: jax.Array, *, timed: bool) -> tuple[jax.Array, jax.Array]:
    """The products of the decays up to each step of a block, and the states from zero on, both [size, blocks, ...]."""
    zeros = jnp.full_like(update[0], -0.0)  # what is added to them keeps its sign
    if not timed:
        sums: jax.Array = sequential_scan(lambda h, row: (h * decay[0] + row,) * 2, zeros, update)[1]
        return jnp.cumprod(jnp.broadcast_to(decay, (update.shape[0], *decay.shape[1:])), 0)[:, None], sums

    def step(carry: _Pair, row: _Pair) -> tuple[_Pair, _Pair]:
        new = carry[0] * row[0], carry[1] * row[0] + row[1]
        return new, new

    both: _Pair = sequential_scan(step, (jnp.ones_like(decay[0]), zeros), (decay, update))[1]
    return both


def _blocks(x: jax.Array, count: Dim, size: int, filling: float) -> jax.Array:
    """`x` [T, ...], filled up to whole blocks: for each step of a block its row in all blocks, [size, count, ...]."""
    missing = count * size - x.shape[0]
    if not (is_static(missing) and missing == 0):
        x = jnp.pad(x, [(0, missing), *((0, 0) for _ in x.shape[1:])], constant_values=filling)
    return jnp.moveaxis(x.reshape(count, size, *x.shape[1:]), 1, 0)
