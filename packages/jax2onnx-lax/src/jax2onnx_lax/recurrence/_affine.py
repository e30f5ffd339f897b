"""`Affine`: arrays whose elements are affine functions of rows: constant matrices times rows of values, plus constants."""

from __future__ import annotations

from jax2onnx_graph.arrays import Array

__all__ = ["Affine", "Batch", "Leaf", "Product", "Term", "common_frame"]

import dataclasses
from collections.abc import Callable, Hashable
from functools import cached_property

import numpy as np
from jax2onnx_core import Value

from jax2onnx_lax.recurrence._errors import UnsuitableError

#: The batch axes that each axis of an array runs over: none for an axis of features, several where axes were merged.
Batch = tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Leaf:
    """Numbers of which each row of the batch has `width`.

    Attributes:
      value: what they are.
      width: how many.
      reason: why they are no formula of others; empty where they are given.
    """

    value: Hashable
    width: int
    reason: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Product:
    """The products of the rows `operand` [n] with the columns of a constant matrix [n, columns], made from `weights`."""

    operand: Affine
    matrix: Array
    weights: frozenset[Value]

    def rows(self, columns: Array) -> dict[Hashable, Array]:
        """The matrix from the row of each leaf to these columns."""
        result: dict[Hashable, Array] = {}
        taken = self.matrix[:, columns]
        for term in self.operand.terms:
            if (term.scale == 1).all():
                matrix = _spread(term.source, term.columns, taken)
            else:  # what is multiplied by 0 has no part in it, even where it is infinite
                own = np.flatnonzero(term.scale)
                matrix = _spread(term.source, term.columns[own], term.scale[own, None] * taken[own])
            for leaf, part in matrix.items():
                result[leaf] = result[leaf] + part if leaf in result else part
        return result


def _spread(source: Leaf | Product, columns: Array, matrix: Array) -> dict[Hashable, Array]:
    """The matrix from the row of each leaf to the product of these columns of `source` with `matrix`."""
    if isinstance(source, Product):
        return {leaf: part @ matrix for leaf, part in source.rows(columns).items()}
    if np.array_equal(columns, np.arange(source.width)):
        return {source.value: matrix}
    spread = np.zeros((source.width, matrix.shape[1]), matrix.dtype)
    np.add.at(spread, columns, matrix)
    return {source.value: spread}


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """The elements of an array, each `scale` times the column of `source` that `columns` names."""

    source: Leaf | Product
    columns: Array
    scale: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Affine:
    """An array of sums of terms and a constant. Equal ones have equal keys.

    Attributes:
      terms: arrays of the shape of `bias`.
      bias: the constants; its batch axes have size 1, as those of the terms have.
      batch: the batch axes that each axis runs over.
      biases: the constants of several numbers that `bias` was made from.
    """

    terms: tuple[Term, ...]
    bias: Array
    batch: Batch
    biases: frozenset[Value] = frozenset()

    @classmethod
    def constant(cls, array: Array, sources: frozenset[Value] = frozenset()) -> Affine:
        """The same numbers in every row, made from constants of the model."""
        return cls((), array, ((),) * array.ndim, sources if array.size > 1 else frozenset())

    @classmethod
    def row(cls, leaf: Leaf, batch: Batch, axis: int) -> Affine:
        """The row of `leaf` itself, its elements along `axis`."""
        shape = [leaf.width if i == axis else 1 for i in range(len(batch))]
        term = Term(leaf, np.arange(leaf.width).reshape(shape), np.ones(shape, np.float32))
        return cls((term,), np.zeros(shape, np.float32), batch)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis of features, 1 for batch axes."""
        return self.bias.shape

    @cached_property
    def key(self) -> Hashable:
        """A key that two of these share only if they are equal."""
        terms = frozenset((id(t.source), t.columns.tobytes(), t.scale.tobytes()) for t in self.terms)
        return self.batch, self.shape, (self.bias + 0.0).astype(np.float64).tobytes(), terms

    def arranged(self, change: Callable[[Array], Array], batch: Batch) -> Affine:
        """The same elements in another order or shape: `change` rearranges an array."""
        terms = tuple(Term(t.source, change(t.columns), change(t.scale)) for t in self.terms)
        return Affine(terms, change(self.bias), batch, self.biases)

    def __add__(self, other: Affine) -> Affine:
        scales: dict[tuple[Leaf | Product, bytes], Term] = {}
        for term in (*self.terms, *other.terms):
            columns = np.where(term.scale == 0, 0, term.columns)
            key = (term.source, columns.tobytes())
            scale = scales[key].scale + term.scale if key in scales else term.scale
            scales[key] = Term(term.source, columns, scale)
        return Affine(
            tuple(t for t in scales.values() if t.scale.any()),
            self.bias + other.bias,
            self.batch,
            self.biases | other.biases,
        )

    def __mul__(self, factor: Array | float) -> Affine:
        terms = tuple(Term(t.source, t.columns, t.scale * factor) for t in self.terms)
        return Affine(terms, self.bias * factor, self.batch, self.biases)

    @property
    def array(self) -> Array | None:
        """The numbers, if they are the same in every row of every batch."""
        return None if self.terms or any(self.batch) else self.bias

    @property
    def leaves(self) -> set[Hashable]:
        """The leaves on which the elements depend."""
        return {leaf for term in self.terms for leaf in _leaves(term)}

    @property
    def is_zero(self) -> bool:
        """Whether it is 0 whatever the rows are."""
        return not self.terms and not self.bias.any()

    def number(self) -> float | None:
        """The number that all elements are; None where they are not one."""
        first = self.bias.flat[0] if self.bias.size else np.nan
        return float(first) if not self.terms and bool((self.bias == first).all()) else None

    def multiple_of(self, leaf: Leaf) -> float | None:
        """k where it is k times the row of `leaf` itself, along the last axis; None where it is not."""
        if len(self.terms) != 1 or self.terms[0].source is not leaf or self.bias.any():
            return None
        (term,) = self.terms
        first, in_order = term.scale.flat[0], np.arange(leaf.width)
        shape = (*[1] * (len(self.shape) - 1), leaf.width)
        is_it = self.shape == shape and np.array_equal(term.columns.reshape(-1), in_order)
        return float(first) if is_it and bool((term.scale == first).all()) else None

    def weights(self, leaf: Hashable) -> set[Value]:
        """The constants that `matrices` takes the matrix of a leaf from."""
        products = [term.source for term in self.terms if isinstance(term.source, Product)]
        return {w for p in products if leaf in p.operand.leaves for w in p.weights}

    def matrices(self) -> dict[Hashable, Array]:
        """The matrices [width, features] that the leaves are multiplied with.

        Raises:
          UnsuitableError: a leaf is added itself.
        """
        result: dict[Hashable, Array] = {}
        for term in self.terms:
            if isinstance(term.source, Leaf):
                raise UnsuitableError(term.source.reason or "a state or an input is added to a gate without weights")
            scale = term.scale.reshape(-1)
            for leaf, matrix in term.source.rows(term.columns.reshape(-1)).items():
                scaled = matrix if (scale == 1).all() else matrix * scale.astype(matrix.dtype)
                result[leaf] = result[leaf] + scaled if leaf in result else scaled
        return result


def _leaves(term: Term) -> set[Hashable]:
    """The leaves on which a term depends."""
    if isinstance(term.source, Leaf):
        return {term.source.value}
    return term.source.operand.leaves


def common_frame(a: Affine, b: Affine) -> tuple[Batch, tuple[int, ...]]:
    """The batch axes that the axes of `a` and `b`, broadcast to each other, run over, and their sizes."""
    rank = max(len(a.shape), len(b.shape))
    axes = zip(
        *([*[((), 1)] * (rank - len(x.shape)), *zip(x.batch, x.shape, strict=True)] for x in (a, b)), strict=True
    )
    batch, shape = [], []
    for (over, size), (other, other_size) in axes:
        if over != other and (other or other_size > 1) and (over or size > 1):
            raise UnsuitableError("its step combines features with batches")
        if size != other_size and 1 not in (size, other_size):
            raise UnsuitableError("its step combines arrays of different sizes")
        batch.append(over or other)
        shape.append(max(size, other_size))
    return tuple(batch), tuple(shape)
