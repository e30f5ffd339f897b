"""`Formula`: polynomials in activations, whose coefficients are affine in rows of values."""

from __future__ import annotations

from jax2onnx_graph.arrays import Array

__all__ = ["ONE", "Atom", "Formula", "Monomial"]

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property

import numpy as np

from jax2onnx_lax.recurrence._affine import Affine, Batch, common_frame
from jax2onnx_lax.recurrence._errors import UnsuitableError

_MOST_TERMS = 16


@dataclasses.dataclass(frozen=True)
class Atom:
    """An activation of a formula, by its operator's name."""

    op_type: str
    argument: Formula


#: A product of activations: pairs of one and its power. The empty product is 1.
Monomial = frozenset[tuple[Atom, int]]

#: The empty product.
ONE: Monomial = frozenset()


@dataclasses.dataclass(frozen=True, eq=False)
class Formula:
    """A sum of products of activations, each with a coefficient; equal ones are the same polynomial.

    Attributes:
      terms: the coefficients, all in arrays of one shape.
    """

    terms: Mapping[Monomial, Affine]

    @classmethod
    def from_affine(cls, affine: Affine) -> Formula:
        """A formula without activations."""
        return cls({ONE: affine})

    @classmethod
    def activation(cls, op_type: str, argument: Formula) -> Formula:
        """An activation of a formula."""
        ones = np.ones(argument.frame.shape, argument.frame.bias.dtype)
        return cls({frozenset([(Atom(op_type, argument), 1)]): Affine((), ones, argument.frame.batch)})

    @cached_property
    def key(self) -> Hashable:
        """A key that two formulas share only if they are equal."""
        return frozenset((monomial, affine.key) for monomial, affine in self.terms.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def frame(self) -> Affine:
        """One of the coefficients, which all have arrays of the same shape and batch axes."""
        return next(iter(self.terms.values()))

    @property
    def affine(self) -> Affine | None:
        """The formula, if it has no activations."""
        return self.terms[ONE] if set(self.terms) == {ONE} else None

    @cached_property
    def leaves(self) -> frozenset[Hashable]:
        """The leaves on which the elements depend."""
        atoms = [atom for monomial in self.terms for atom, _ in monomial]
        own = [leaf for affine in self.terms.values() for leaf in affine.leaves]
        return frozenset(own).union(*(atom.argument.leaves for atom in atoms))

    def arranged(self, change: Callable[[Array], Array], batch: Batch) -> Formula:
        """The same elements in another order or shape: `change` rearranges an array."""
        terms = {
            frozenset((Atom(a.op_type, a.argument.arranged(change, batch)), n) for a, n in m): c.arranged(change, batch)
            for m, c in self.terms.items()
        }
        return Formula(terms)

    def broadcast(self, batch: Batch, shape: tuple[int, ...]) -> Formula:
        """The formula in arrays of this shape."""
        if (self.frame.batch, self.frame.shape) == (batch, shape):
            return self
        return self.arranged(lambda array: np.broadcast_to(array, shape), batch)

    def __add__(self, other: Formula) -> Formula:
        frame = common_frame(self.frame, other.frame)
        terms = dict(self.broadcast(*frame).terms)
        for monomial, affine in other.broadcast(*frame).terms.items():
            terms[monomial] = terms[monomial] + affine if monomial in terms else affine
        return _without_zeros(terms)

    def __neg__(self) -> Formula:
        return Formula({monomial: affine * -1 for monomial, affine in self.terms.items()})

    def __mul__(self, other: Formula) -> Formula:
        frame = common_frame(self.frame, other.frame)
        terms: dict[Monomial, Affine] = {}
        for monomial, affine in self.broadcast(*frame).terms.items():
            for other_monomial, other_affine in other.broadcast(*frame).terms.items():
                both = frozenset((Counter(dict(monomial)) + Counter(dict(other_monomial))).items())
                product = _product(affine, other_affine)
                terms[both] = terms[both] + product if both in terms else product
        if len(terms) > _MOST_TERMS:
            raise UnsuitableError("its step is a sum of too many products")
        return _without_zeros(terms)


def _product(a: Affine, b: Affine) -> Affine:
    if a.terms and b.terms:
        raise UnsuitableError("states or inputs are multiplied with each other")
    return a * b.bias if a.terms else b * a.bias


def _without_zeros(terms: Mapping[Monomial, Affine]) -> Formula:
    kept = {monomial: affine for monomial, affine in terms.items() if not affine.is_zero}
    return Formula(kept or {ONE: next(iter(terms.values()))})
