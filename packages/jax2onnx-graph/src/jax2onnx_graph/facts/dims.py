"""Dimensions of shapes: numbers, or symbolic expressions that compute like numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "OPERATIONS",
    "Dim",
    "Dims",
    "Factor",
    "SpecializedDim",
    "SymbolicDim",
    "Term",
    "are_plain",
    "is_empty",
    "is_static",
]


class SymbolicDim(Protocol):
    """A symbolic dimension: a name, or an expression of names and numbers, with the arithmetic of integers.

    JAX's dimension expressions are of this kind. A comparison may raise where it holds for some values of the
    symbols only.
    """

    def __add__(self, other: Dim, /) -> Dim: ...
    def __radd__(self, other: int, /) -> Dim: ...
    def __sub__(self, other: Dim, /) -> Dim: ...
    def __rsub__(self, other: int, /) -> Dim: ...
    def __mul__(self, other: Dim, /) -> Dim: ...
    def __rmul__(self, other: int, /) -> Dim: ...
    def __floordiv__(self, other: Dim, /) -> Dim: ...
    def __rfloordiv__(self, other: int, /) -> Dim: ...
    def __mod__(self, other: Dim, /) -> Dim: ...
    def __rmod__(self, other: int, /) -> Dim: ...
    def __neg__(self) -> Dim: ...
    def __lt__(self, other: Dim, /) -> bool: ...
    def __le__(self, other: Dim, /) -> bool: ...
    def __gt__(self, other: Dim, /) -> bool: ...
    def __ge__(self, other: Dim, /) -> bool: ...


class SpecializedDim(int):
    """An int that remembers the dimension expression that it was fixed from.

    It is equal to the int in every way, arithmetic gives plain ints, and it pickles as an int.

    >>> d = SpecializedDim(5632, "N")
    >>> d == 5632, d + 1, d.expression
    (True, 5633, 'N')
    """

    expression: str

    def __new__(cls, value: int, expression: str) -> Self:
        self = super().__new__(cls, value)
        self.expression = expression
        return self

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


_INT = frozenset({int})

Dim = int | SymbolicDim
Dims = tuple[Dim, ...]

#: The operations in dimension expressions besides sums and products.
OPERATIONS = frozenset({"floordiv", "mod", "max", "min"})

#: A symbol's name, or an operation ("floordiv", "mod", "max", "min") and its operands.
Factor = str | tuple[str, Sequence[Dim]]
#: A coefficient and a product of factors, each with its exponent; an empty product is 1.
Term = tuple[int, Sequence[tuple[Factor, int]]]


def is_static(dim: Dim | str) -> TypeIs[int]:
    """Whether a dimension is a number, not an expression of symbols."""
    return isinstance(dim, (int, np.integer))


def are_plain(dims: Sequence[object]) -> TypeGuard[tuple[int, ...]]:
    """Whether dimensions are numbers that remember nothing, as most are: asked at once, where each would take long."""
    return _INT.issuperset(map(type, dims))


def is_empty(dims: Sequence[Dim]) -> bool:
    """Whether an array of these dimensions has no elements, whatever its symbols are."""
    return 0 in dims if are_plain(tuple(dims)) else any(is_static(dim) and dim == 0 for dim in dims)
