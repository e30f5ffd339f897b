"""`Matrices`: a state of matrices whose rows are written by keys and read by queries, as the arrays that its computation takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Dim

from jax2onnx_lax.recurrence._affine_updates import AffineUpdate
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._values import BatchedArray, Factor, Label, Term, product

__all__ = ["Delta", "Matrices", "MatrixSolution"]


@dataclasses.dataclass(frozen=True)
class Delta:
    """The delta rule `S' = D S + k (beta (v - (D S)ᵀ k))ᵀ`: its key, and the factors of beta and of the value."""

    key: tuple[Factor, ...]
    beta: tuple[Factor, ...]
    beta_scale: float
    value: tuple[Factor, ...]
    value_scale: float


@dataclasses.dataclass(frozen=True)
class Matrices:
    """A normal form with the roles of its axes.

    Attributes:
      form: the update of the state in a step.
      key: the axis along which the state is read.
      value: the axis of what is written and read.
      init: the first state.
      length: the number of steps.
    """

    form: AffineUpdate
    key: int
    value: int
    init: jax.Array
    length: Dim

    @staticmethod
    def from_form(form: AffineUpdate, init: jax.Array, length: Dim, key: int | None) -> Matrices:
        """Find the axes of keys and values, of which that of the keys may be given.

        Raises:
          UnsuitableError: there are no two such axes.
        """
        mixed = None if form.low is None else form.low.axis
        if mixed is not None and key is not None and key != mixed:
            raise UnsuitableError("its state is read along another axis than it is written by")
        known = mixed if key is None else key
        rank = len(form.shape)
        for candidate in range(rank) if known is None else [known]:
            for value in reversed(range(rank)):
                if value != candidate and _separates(form, candidate, value):
                    return Matrices(form, candidate, value, init, length)
        raise UnsuitableError("its state is no sum of products of keys and values")

    @property
    def batch(self) -> list[Label]:
        """The names of the other axes."""
        return [label for axis, label in enumerate(self.form.axes) if axis not in (self.key, self.value)]

    @property
    def batch_dims(self) -> list[Dim]:
        """The sizes of the other axes."""
        return [dim for axis, dim in enumerate(self.form.shape) if axis not in (self.key, self.value)]

    @property
    def keys(self) -> Label:
        """The name of the axis of keys."""
        return self.form.axes[self.key]

    @property
    def values(self) -> Label:
        """The name of the axis of values."""
        return self.form.axes[self.value]

    @property
    def key_size(self) -> Dim:
        """The size of the axis of keys."""
        return self.form.shape[self.key]

    @property
    def value_size(self) -> Dim:
        """The size of the axis of values."""
        return self.form.shape[self.value]

    @property
    def update(self) -> Term:
        """The value that a step writes."""
        return self.form.update[0]

    def stack(self, factors: Sequence[Factor], last: Sequence[Label], scale: float = 1.0) -> jax.Array:
        """A product of factors as [T, *batch, *last], whose axes are of size 1 where no factor has them."""
        found = product(factors, [*self.batch, *last], scale, dtype=self.init.dtype)
        return self._in_all_steps(found)

    def full(self, factors: Sequence[Factor], last: Label, size: Dim, scale: float = 1.0) -> jax.Array:
        """The same with one last axis, and all axes of their full size."""
        return jnp.broadcast_to(self.stack(factors, [last], scale), (self.length, *self.batch_dims, size))

    def _in_all_steps(self, found: BatchedArray) -> jax.Array:
        array = found.array.astype(self.init.dtype)
        return array if found.timed else jnp.broadcast_to(array[None], (self.length, *array.shape))

    def first(self) -> jax.Array:
        """The first state, [*batch, keys, values]."""
        order = [axis for axis in range(self.init.ndim) if axis not in (self.key, self.value)]
        return self.init.transpose([*order, self.key, self.value])

    def restored(self, state: jax.Array) -> jax.Array:
        """A state [*batch, keys, values] with its axes in their own order."""
        order = [axis for axis in range(self.init.ndim) if axis not in (self.key, self.value)] + [self.key, self.value]
        return state.transpose([order.index(axis) for axis in range(len(order))])

    def delta(self) -> Delta | None:
        """The delta rule in the form; None if it is none."""
        low, decay = self.form.low, self.form.decay
        if low is None or len(decay) != 1 or decay[0].scale == 0:
            return None
        inside, rest = _parted(low.term.factors, lambda f: low.inside in f.labels)
        outside, scalars = _parted(rest, lambda f: self.keys in f.labels)
        by_key, by_head = _parted(decay[0].factors, lambda f: self.keys in f.labels)
        inside = [f.renamed({low.inside: self.keys}) for f in inside]
        key, left = _without(inside, by_key), _without(scalars, by_head)
        written, others = _parted(self.update.factors, lambda f: self.keys in f.labels)
        if key is None or left is None or _without(key, outside) != [] or _without(key, written) != []:
            return None
        # What both keys and the update have is part of the key, such as the norm that it was divided by.
        for factor in list(left):
            pair = _without(left, [factor, factor])
            once = _without(others, [factor])
            if pair is not None and once is not None:
                left, others, key = pair, once, [*key, factor]
        value = _without(others, left)
        if value is None:
            return None
        scale = -low.term.scale / decay[0].scale
        return Delta(tuple(key), tuple(left), scale, tuple(value), self.update.scale / scale) if scale else None


def _parted(factors: Sequence[Factor], test: Callable[[Factor], bool]) -> tuple[list[Factor], list[Factor]]:
    chosen = [f for f in factors if test(f)]
    return chosen, [f for f in factors if not test(f)]


def _without(factors: Sequence[Factor], removed: Sequence[Factor]) -> list[Factor] | None:
    """The factors without others; None if one of these is not among them."""
    left = list(factors)
    for factor in removed:
        found = next((f for f in left if f.value is factor.value and f.labels == factor.labels), None)
        if found is None:
            return None
        left.remove(found)
    return left


class MatrixSolution:
    """The states of a recurrence of matrices.

    Attributes:
      segment: the number of steps to compute at once; None for all of them.
      conditions: what has to hold for the results to be those of the loop.

    Args:
      form: the update of the state in a step.
      init: the first state.
      length: the number of steps.
    """

    segment: int | None = None

    def __init__(self, form: AffineUpdate, init: jax.Array, length: Dim) -> None:
        self.form, self._init, self._length = form, init, length
        self.conditions: list[jax.Array] = []

    def matrices(self, key: int | None) -> Matrices:
        """The recurrence with the roles of its axes; see `Matrices.from_form`."""
        return Matrices.from_form(self.form, self._init, self._length, key)


def _separates(form: AffineUpdate, key: int, value: int) -> bool:
    """Whether the state is a sum of products of keys, which do not have the axis `value`, and values, which do not have the axis `key`."""
    keys, values = form.axes[key], form.axes[value]
    own = set(form.axes)
    if len(form.update) != 1 or form.update[0].state is not None:
        return False
    if any(not set(f.labels) <= own for term in (*form.decay, *form.update) for f in term.factors):
        return False
    if any(values in f.labels for term in form.decay for f in term.factors):
        return False
    low = form.low
    if low is not None and any(values in f.labels or not set(f.labels) <= own | {low.inside} for f in low.term.factors):
        return False
    return not any(keys in f.labels and values in f.labels for f in form.update[0].factors)
