"""`ElementwiseSolution`: states each of whose elements is a recurrence `h' = a h + b` of its own, in blocks of steps.

All blocks run side by side: first from zero, with the product of their decays, from which the states at the beginnings of the blocks
follow; then from these. No logarithm and no quotient is taken.
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

__all__ = ["BlockwiseStates", "ElementwiseSolution"]

#: Steps of a block. They are written one after another: a loop of few steps costs more than its arithmetic.
_BLOCK = 16

#: Elements of a state that are worth an operation of a single step.
_LARGE = 2048

#: Elements of all states that are computed at once, and the most steps.
_CACHED, _LONGEST = 2**17, 512


@dataclasses.dataclass(frozen=True, eq=False)
class ElementwiseSolution:
    """The states of all steps.

    Attributes:
      form: the update of the state in a step.
      init: the first state.
      length: the number of steps.
    """

    form: AffineUpdate
    init: jax.Array
    length: Dim

    @property
    def segment(self) -> int | None:
        """The number of steps to compute at once: their arrays stay in the caches of a processor, and their operations are worth a call."""
        size = max(1, size_of(self.form.shape))
        return _BLOCK if size >= _LARGE else min(_LONGEST, max(_BLOCK, _CACHED // size // _BLOCK * _BLOCK))

    @functools.cached_property
    def after(self) -> jax.Array:
        """The states after each step, [T, ...]."""
        return self._solved.states

    @functools.cached_property
    def _solved(self) -> BlockwiseStates:
        return BlockwiseStates.compute(self._decay, self._update, self.init)

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
        """Whether the results are those of the loop, which sums of infinite and products of huge numbers need not be."""
        return [is_moderate(x) for x in self._solved.bounds]

    @functools.cached_property
    def _decay(self) -> jax.Array:
        if not self.form.decay:
            return jnp.zeros((1,) * (1 + len(self.form.shape)), self.init.dtype)
        parts = [product(term.factors, self.form.axes, term.scale, dtype=self.init.dtype) for term in self.form.decay]
        arrays = [part.array if part.timed else part.array[None] for part in parts]
        total = functools.reduce(jnp.add, arrays).astype(self.init.dtype)
        return jnp.broadcast_to(total, (self.length, *total.shape[1:]))

    @functools.cached_property
    def _update(self) -> jax.Array:
        shape = (self.length, *self.form.shape)
        if not self.form.update:
            return jnp.zeros(shape, self.init.dtype)
        found: BatchedArray = Value(self.form.shape, self.init.dtype, terms=self.form.update).array()
        return jnp.broadcast_to(found.array if found.timed else found.array[None], shape)


@dataclasses.dataclass(frozen=True)
class BlockwiseStates:
    """States in all steps.

    Attributes:
      states: `h[t] = decay[t] h[t-1] + update[t]`, [T, ...].
      bounds: the arrays that give the states at the ends of blocks: where all are finite and far from overflow, these are the states
        of the loop. Within a block the arithmetic is that of the loop itself.
    """

    states: jax.Array
    bounds: list[jax.Array]

    @staticmethod
    def compute(decay: jax.Array, update: jax.Array, init: jax.Array) -> BlockwiseStates:
        """The states.

        Args:
          decay: [T, ...], whose other axes may be of size 1.
          update: [T, ...].
          init: the state before the first step, [...].
        """
        length = update.shape[0]
        if is_static(length) and length <= _BLOCK:
            rows = [(decay[t], update[t]) for t in range(int(length))]
            return BlockwiseStates(jnp.stack(_steps(rows, init)), [])
        count = -(-length // _BLOCK)
        decays, updates = (_blocks(x, count, filling) for x, filling in ((decay, 1.0), (update, 0.0)))
        rows = list(zip(decays, updates, strict=True))
        total, state = rows[0]
        for factor, summand in rows[1:]:
            total, state = total * factor, state * factor + summand
        starts, bounds = _starts(total[:, 0], state[:, 0], init)
        found = jnp.concatenate(_steps(rows, starts[:, None]), 1)
        states = found.reshape(count * _BLOCK, *update.shape[1:])
        return BlockwiseStates(states[:length], [*bounds, state, starts])


def _starts(total: jax.Array, state: jax.Array, init: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
    """The states before each block, from the products of the blocks' decays and from their last states, with their bounds."""
    if is_static(total.shape[0]):
        outer = BlockwiseStates.compute(total[:-1], state[:-1], init)
        return jnp.concatenate([init[None], outer.states]), outer.bounds

    def across(carry: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return carry * row[0] + row[1], carry

    return sequential_scan(across, init, (total, state))[1], []


def _steps(rows: Sequence[tuple[jax.Array, jax.Array]], start: jax.Array) -> list[jax.Array]:
    """The states after each step."""
    states = []
    for factor, summand in rows:
        start = start * factor + summand
        states.append(start)
    return states


def _blocks(x: jax.Array, count: Dim, filling: float) -> list[jax.Array]:
    """`x` [T, ...], filled up to whole blocks: for each step of a block its row in all blocks, [count, 1, ...]."""
    missing = count * _BLOCK - x.shape[0]
    if not (is_static(missing) and missing == 0):
        x = jnp.pad(x, [(0, missing), *((0, 0) for _ in x.shape[1:])], constant_values=filling)
    return jnp.split(x.reshape(count, _BLOCK, *x.shape[1:]), _BLOCK, 1)
