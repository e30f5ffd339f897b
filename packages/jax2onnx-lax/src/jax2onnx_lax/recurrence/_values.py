"""Values of the body of a scan as sums of products of a state and factors that are known for all steps."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.arrays import Dtype

__all__ = ["BatchedArray", "Factor", "Label", "State", "Term", "Value", "new_labels", "product", "size_of"]

#: The name of an axis: axes of the factors of one term with the same name run together.
Label = int

_labels = itertools.count()


def new_labels(count: int) -> tuple[Label, ...]:
    """Names that no axis has yet."""
    return tuple(itertools.islice(_labels, count))


@dataclasses.dataclass(frozen=True)
class BatchedArray:
    """The array of a value: `[T, ...]` if it differs from step to step, without an axis of steps if it does not."""

    array: jax.Array
    timed: bool


class State(Protocol):
    """A carry of the scan; `init` is its first value."""

    init: jax.Array

    def read(self, term: Term) -> BatchedArray:
        """A term that this carry is part of, in all steps."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """A value in a product.

    Attributes:
      value: the value, which depends on no state unless that is solved.
      labels: the names of its axes.
    """

    value: Value
    labels: tuple[Label, ...]

    def renamed(self, names: Mapping[Label, Label]) -> Factor:
        """The same with other names of axes."""
        return Factor(self.value, tuple(names.get(label, label) for label in self.labels))


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """A product, summed over all axes that it does not have.

    Attributes:
      factors: the factors of the product.
      out: the names of the axes of the product; one that nothing has is broadcast.
      scale: a number that is multiplied, too.
      state: the carry that is multiplied, before the step or after it; None if there is none.
      when: which of the two.
      axes: the names of the carry's axes.
    """

    factors: tuple[Factor, ...]
    out: tuple[Label, ...]
    scale: float = 1.0
    state: State | None = None
    when: Literal["before", "after"] = "before"
    axes: tuple[Label, ...] = ()

    @property
    def labels(self) -> set[Label]:
        """The names of all axes that a factor or the state has."""
        return {*self.axes, *(label for factor in self.factors for label in factor.labels)}

    def renamed(self, names: Mapping[Label, Label]) -> Term:
        """The same with other names of axes."""
        out, axes = (tuple(names.get(label, label) for label in group) for group in (self.out, self.axes))
        factors = tuple(factor.renamed(names) for factor in self.factors)
        return dataclasses.replace(self, factors=factors, out=out, axes=axes)

    def fresh(self) -> Term:
        """The same with names of axes that no other term has."""
        names = sorted(self.labels | set(self.out))
        return self.renamed(dict(zip(names, new_labels(len(names)), strict=True)))


class Value:
    """A value of the body of a scan.

    Attributes:
      shape, dtype: the shape and dtype in one step.
      needs: the states whose solution its array takes.
      logarithm: the value of which it is the exponential, if it is one.
      nonnegative: whether none of its elements is below zero.
      real: the real value of which it is the complex one, if it is.
    """

    def __init__(
        self, shape: Sequence[Dim], dtype: Dtype, array: Callable[[], BatchedArray] | None = None, *, terms: Sequence[Term] = (),
        needs: frozenset[State] = frozenset(), timed: bool = True, logarithm: Value | None = None, nonnegative: bool = False,
        operands: Sequence[Value] = (), real: Value | None = None,
    ) -> None:  # fmt: skip
        self.shape, self.dtype, self.needs = tuple(shape), dtype, needs
        self.logarithm, self.nonnegative, self.timed = logarithm, nonnegative, timed
        self.real = real
        self._array, self._terms, self._operands = array, tuple(terms), operands
        self._known: BatchedArray | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its terms; itself where it is not made of others."""
        if not self._terms:
            labels = new_labels(len(self.shape))
            self._terms = (Term((Factor(self, labels),), labels),)
        return self._terms

    @property
    def is_plain(self) -> bool:
        """Whether it is not made of others."""
        return self._array is not None

    @property
    def states(self) -> frozenset[State]:
        """The states that its terms have."""
        return (
            frozenset(term.state for term in self.terms if term.state is not None) if not self.is_plain else frozenset()
        )

    @property
    def all_states(self) -> frozenset[State]:
        """The states on which it depends."""
        return self.needs | self.states

    def array(self) -> BatchedArray:
        """The value in all steps."""
        # What it is made of comes first, however deep that is: Python's stack is not.
        waiting: list[Value] = [self]
        while waiting:
            unknown = [] if waiting[-1].is_known else [x for x in waiting[-1].parts if not x.is_known]
            if not unknown:
                waiting.pop().compute()
            waiting += unknown
        return self.compute()

    @property
    def is_known(self) -> bool:
        """Whether its array is computed."""
        return self._known is not None

    def compute(self) -> BatchedArray:
        """The same as `array` for a value whose parts are known."""
        if self._known is None:
            self._known = self._array() if self._array is not None else self._sum()
        return self._known

    @property
    def parts(self) -> Sequence[Value]:
        """The values that its array is computed from."""
        if self._array is not None:
            return self._operands
        return [factor.value for term in self._terms if term.state is None for factor in term.factors]

    def _sum(self) -> BatchedArray:
        taken_away = [i > 0 and term.scale == -1.0 for i, term in enumerate(self.terms)]
        terms = [dataclasses.replace(x, scale=1.0) if y else x for x, y in zip(self.terms, taken_away, strict=True)]
        parts = list(map(self._part, terms))
        timed = any(part.timed for part in parts)
        arrays = [part.array if part.timed or not timed else part.array[None] for part in parts]
        total = arrays[0]
        for array, away in zip(arrays[1:], taken_away[1:], strict=True):
            total = total - array if away else total + array
        return BatchedArray(total, timed)

    def _part(self, term: Term) -> BatchedArray:
        part = (
            product(term.factors, term.out, term.scale, dtype=self.dtype)
            if term.state is None
            else term.state.read(term)
        )
        dims = self.shape
        if part.timed:
            return BatchedArray(jnp.broadcast_to(part.array, (part.array.shape[0], *dims)).astype(self.dtype), True)
        return BatchedArray(jnp.broadcast_to(part.array, dims).astype(self.dtype), False)


def product(factors: Sequence[Factor], out: Sequence[Label], scale: float = 1.0, *, dtype: Dtype) -> BatchedArray:
    """The product of factors, summed over the axes that `out` does not name; axes that no factor has are of size 1."""
    arrays = [(factor.value.array(), factor.labels) for factor in factors]
    if not arrays:
        return BatchedArray(jnp.full((1,) * len(out), scale, dtype), False)
    timed = any(array.timed for array, _ in arrays)
    step: tuple[Label, ...] = (-1,)
    operands = [_squeezed(array.array, step * array.timed + labels, {*step, *out}) for array, labels in arrays]
    present = {label for _, labels in operands for label in labels}
    result = _einsum(operands, [*step * timed, *(label for label in out if label in present)])
    result = jnp.expand_dims(result, tuple(index + timed for index, label in enumerate(out) if label not in present))
    return BatchedArray(result if scale == 1.0 else result * np.asarray(scale, result.dtype), timed)


def _squeezed(array: jax.Array, labels: tuple[Label, ...], out: set[Label]) -> tuple[jax.Array, tuple[Label, ...]]:
    """An array without its axes of size 1 over which a sum would run."""
    gone = [
        i for i, label in enumerate(labels) if label not in out and is_static(array.shape[i]) and array.shape[i] == 1
    ]
    return jnp.squeeze(array, gone) if gone else array, tuple(x for i, x in enumerate(labels) if i not in gone)


def _einsum(operands: Sequence[tuple[jax.Array, tuple[Label, ...]]], out: Sequence[Label]) -> jax.Array:
    """`jnp.einsum` by names of axes; products without sums are products of broadcast arrays, which cost less."""
    numbers = {label: index for index, label in enumerate(dict.fromkeys(x for _, labels in operands for x in labels))}
    gone = [label for label in numbers if label not in out]
    if gone and all(set(labels) == set(numbers) for _, labels in operands):
        # A product of matrices of one row and one column each is slower than what it is made of.
        whole = _einsum(operands, [*out, *gone])
        return jnp.sum(whole, tuple(range(len(out), whole.ndim)))
    if gone:
        flat = [part for array, labels in operands for part in (array, [numbers[label] for label in labels])]
        return jnp.einsum(*flat, [numbers[label] for label in out])
    return functools.reduce(jnp.multiply, [_aligned(array, labels, out) for array, labels in operands])


def _aligned(array: jax.Array, labels: Sequence[Label], out: Sequence[Label]) -> jax.Array:
    """The array with the axes `out`, of size 1 where it has none."""
    order = sorted(range(len(labels)), key=lambda axis: out.index(labels[axis]))
    return jnp.expand_dims(array.transpose(order), tuple(i for i, label in enumerate(out) if label not in labels))


def size_of(dims: Sequence[Dim]) -> int:
    """The number of elements, where symbolic sizes count as one."""
    return math.prod(int(dim) for dim in dims if is_static(dim))
