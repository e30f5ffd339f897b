"""`ElementwiseSolution`: states each of whose elements is a recurrence `h' = a h + b` of its own, in blocks of steps.

A block begins without what came before it, so that all blocks run side by side; what came before is added at the end, multiplied by
the product of the block's decays. The products and sums are those of the loop, no logarithm and no quotient is taken.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.recurrence._carries import read_stack
from jax2onnx_lax.recurrence._in_order import in_order
from jax2onnx_lax.recurrence._normal_form import NormalForm
from jax2onnx_lax.recurrence._values import BatchedArray, Term, Value, product

__all__ = ["ElementwiseSolution", "elementwise_recurrence"]

#: Steps of a block where the number of steps is symbolic.
_BLOCK = 32


@dataclasses.dataclass(frozen=True, eq=False)
class ElementwiseSolution:
    """The states of all steps.

    Attributes:
      form: what a step makes of the state.
      init: the first state.
      length: the number of steps.
    """

    form: NormalForm
    init: jax.Array
    length: Dim

    @functools.cached_property
    def after(self) -> jax.Array:
        """The states after each step, [T, ...]."""
        return elementwise_recurrence(self._decay, self._update, self.init)

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
        return [_is_moderate(self._update), _is_moderate(self.init), _is_moderate(self.after)]

    @functools.cached_property
    def _decay(self) -> jax.Array:
        if not self.form.decay:
            return jnp.zeros((1,) * (1 + len(self.form.shape)), self.init.dtype)
        parts = [product(term.factors, self.form.axes, term.scale) for term in self.form.decay]
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


def _is_moderate(x: jax.Array) -> jax.Array:
    """Whether all numbers are finite and far from overflow."""
    flat = jnp.abs(x).reshape(-1)
    limit = math.sqrt(float(jnp.finfo(flat.dtype).max)) / 1e3
    return jnp.all(flat < limit)


def elementwise_recurrence(decay: jax.Array, update: jax.Array, init: jax.Array) -> jax.Array:
    """The states `h[t] = decay[t] h[t-1] + update[t]` after all steps.

    Args:
      decay: [T, ...], whose other axes may be of size 1.
      update: [T, ...].
      init: [...].
    """
    length = update.shape[0]
    block = max(2, math.isqrt(int(length))) if is_static(length) else _BLOCK
    count = -(-length // block)
    decays, updates = (_blocks(x, count, block, filling) for x, filling in ((decay, 1.0), (update, 0.0)))

    def within(carry: tuple[jax.Array, jax.Array], row: tuple[jax.Array, jax.Array]) -> tuple:  # type: ignore[type-arg]
        total, state = carry[0] * row[0], carry[1] * row[0] + row[1]
        return (total, state), (total, state)

    start = jnp.ones_like(decays[0]), jnp.zeros_like(updates[0])
    (total, state), (totals, states) = in_order(within, start, (decays, updates))

    def across(carry: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return carry * row[0] + row[1], carry

    _, starts = in_order(across, init, (total, state))
    whole = states + totals * starts[None]
    return jnp.moveaxis(whole, 0, 1).reshape(count * block, *update.shape[1:])[:length]


def _blocks(x: jax.Array, count: Dim, block: int, filling: float) -> jax.Array:
    """`x` [T, ...] in blocks [block, count, ...]."""
    padded = jnp.pad(x, [(0, count * block - x.shape[0]), *((0, 0) for _ in x.shape[1:])], constant_values=filling)
    return jnp.moveaxis(padded.reshape(count, block, *x.shape[1:]), 1, 0)
