"""`Integers`: what is known of the elements of an array of integers or booleans."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Aval, Dim
from jax2onnx_core.jaxprs import Dims, bounds, definitely_le, dim_expression, is_extended_dtype, is_static
from jax2onnx_graph.build.builder import Array, DtypeLike
from jax2onnx_graph.facts.dims import Factor

from jax2onnx_lax._compat import max_dim, min_dim
from jax2onnx_lax.dtypes import is_bool, is_integer

__all__ = [
    "MOST_ELEMENTS", "Affine", "Integers", "Relation", "Span", "Test", "affine", "constant", "elements_of", "fitted", "holds_integers",
    "is_one", "limits", "meet", "number", "union", "unknown",
]  # fmt: skip

#: The smallest and the largest element; None for no bound.
Span = tuple[Dim | None, Dim | None]

#: A longer vector is not known element by element.
MOST_ELEMENTS = 8

# A larger constant is known by its extremes only.
_COMPARED_ELEMENTS = 4096
# Symbols, and products of different ones, are taken to be no larger where an expression of them may leave a dtype.
_LARGE = 1 << 16
# A longer expression is not kept: each step may make it longer.
_MOST_TERMS = 16


class Affine(NamedTuple):
    """The array whose elements are offset + Σ steps[k] · (position along axis k) + factor · t in iteration t of a loop.

    Attributes:
      offset: the first element.
      steps: for each axis how much each element is more than the one before it.
      factor: how much an element is more than in the iteration before.
      length: the number of iterations.
    """

    offset: Dim
    steps: tuple[int, ...]
    factor: int = 0
    length: Dim = 1

    @property
    def number(self) -> Dim | None:
        """The number that all elements are, in all iterations; None for others."""
        return self.offset if not any((self.factor, *self.steps)) else None


class Relation(NamedTuple):
    """How integers follow from others, `base`, element by element: "sum" is base + shift, "sign" is the sign of base,
    "part" is at least 0 and at most base.
    """

    base: Integers
    kind: Literal["sum", "sign", "part"]
    shift: Dim = 0

    def of_base(self, span: Span) -> Span:
        """Where an element of the base is if that of the integers is in `span`."""
        low, high = span
        if self.kind == "sum":
            return None if low is None else low - self.shift, None if high is None else high - self.shift
        if self.kind == "part":
            return low, None
        return _sign_at_least(low), None if high is None else _negated(_sign_at_least(-high))


def _sign_at_least(low: Dim | None) -> Dim | None:
    """The least number whose sign is at least `low`; None for no bound."""
    if low is None or not definitely_le(0, low):
        return None
    return 1 if definitely_le(1, low) else 0


def _negated(dim: Dim | None) -> Dim | None:
    return None if dim is None else -dim


class Test(NamedTuple):
    """What a boolean says of integers, `base`, element by element.

    Attributes:
      base: the integers.
      outcomes: where their element is if the boolean is false, and where if it is true.
    """

    base: Integers
    outcomes: tuple[Span, Span]


@dataclasses.dataclass(frozen=True, eq=False)
class Integers:
    """What is known of the elements of an array of integers or booleans (0 and 1). An array without elements is anything.

    Attributes:
      low, high: the dimensions between which all elements are, ends included.
      affine: which elements they are exactly, where that is known.
      is_distinct: whether no two elements are equal.
      elements: of a short vector, its elements one by one.
      relations: how they follow from other integers.
      tests: what they say, as booleans, of other integers.
    """

    low: Dim
    high: Dim
    affine: Affine | None = None
    is_distinct: bool = False
    elements: tuple[Integers, ...] = ()
    relations: tuple[Relation, ...] = ()
    tests: tuple[Test, ...] = ()

    @property
    def number(self) -> Dim | None:
        """The number that all elements are; None where they differ or none is known."""
        return None if self.affine is None else self.affine.number

    @property
    def step(self) -> int:
        """How much they are more from iteration to iteration, where they are affine."""
        return 0 if self.affine is None else self.affine.factor

    def is_within(self, low: Dim, high: Dim) -> bool:
        """Whether all elements are known to be in this range, ends included."""
        return definitely_le(low, self.low) and definitely_le(self.high, high)

    def is_place(self, size: Dim) -> bool:
        """Whether all elements are known to be places of an axis of that size."""
        return self.is_within(0, size - 1)


def holds_integers(aval: Aval) -> bool:
    """Whether an array has elements of which something can be known."""
    return not is_extended_dtype(aval.dtype) and (is_integer(aval.dtype) or is_bool(aval.dtype))


def limits(dtype: DtypeLike) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype or bool."""
    if is_bool(dtype):
        return 0, 1
    info = jnp.iinfo(dtype)
    return int(info.min), int(info.max)


def unknown(aval: Aval) -> Integers:
    """Integers of which only the dtype is known."""
    return Integers(*limits(aval.dtype))


def number(value: Dim, rank: int = 0) -> Integers:
    """An array of one number."""
    return Integers(value, value, Affine(value, (0,) * rank))


def affine(form: Affine, dims: Dims) -> Integers:
    """Integers that are affine in their positions, of these dimensions, and a counter.

    Along an axis of size 1 the step is 0: arithmetic may repeat the element there.
    """
    form = form._replace(steps=tuple(0 if is_one(n) else step for step, n in zip(form.steps, dims, strict=True)))
    low = high = form.offset
    for step, size in [*zip(form.steps, dims, strict=True), (form.factor, form.length)]:
        reach = (size - 1) * step
        low, high = (low + reach, high) if step < 0 else (low, high + reach)
    along = [step for step, size in zip(form.steps, dims, strict=True) if not is_one(size)]
    return Integers(low, high, form, is_distinct=not along or (len(along) == 1 and along[0] != 0))


def constant(array: Array) -> Integers:
    """Integers that are known."""
    if not array.size:
        return Integers(0, 0)
    low, high = int(array.min()), int(array.max())
    if array.size > _COMPARED_ELEMENTS or max(abs(low), abs(high)) >= 1 << 62:
        return Integers(low, high, Affine(low, (0,) * array.ndim) if low == high else None, is_distinct=array.size == 1)
    whole = array.astype(np.int64)
    form = _affine_form(whole)
    return Integers(low, high, form, is_distinct=bool(np.unique(whole).size == whole.size))


def _affine_form(array: Array) -> Affine | None:
    origin = int(array[(0,) * array.ndim])
    firsts = [tuple(int(axis == other) for other in range(array.ndim)) for axis in range(array.ndim)]
    steps = tuple(int(array[f]) - origin if size > 1 else 0 for f, size in zip(firsts, array.shape, strict=True))
    expected = np.full(array.shape, origin, np.int64)
    for axis, step in enumerate(steps):
        places = [1] * array.ndim
        places[axis] = -1
        expected = expected + step * np.arange(array.shape[axis]).reshape(places)
    return Affine(origin, steps) if np.array_equal(expected, array) else None


def elements_of(x: Integers, dims: Dims) -> tuple[Integers, ...] | None:
    """The elements of a short array one by one, where they are known."""
    if x.elements:
        return x.elements
    sizes = [size for size in dims if not is_one(size)]
    if not sizes and x.affine is None:
        return (x,)
    count, step = sizes[0] if sizes else 1, x.affine.steps[0] if x.affine is not None and sizes else 0
    if x.affine is None or len(sizes) > 1 or len(dims) > 1 or not is_static(count) or count > MOST_ELEMENTS:
        return None
    origin = x.affine._replace(steps=())
    return tuple(affine(origin._replace(offset=origin.offset + i * step), ()) for i in range(count))


def is_one(dim: Dim) -> bool:
    """Whether an axis has size 1."""
    return is_static(dim) and dim == 1


# ---------------------------------------------------------------------------------------- bounds


def union(*parts: Integers) -> tuple[Dim, Dim]:
    """The bounds of elements of any of several arrays."""
    low, high = parts[0].low, parts[0].high
    for other in parts[1:]:
        low, high = min_dim(low, other.low), max_dim(high, other.high)
    return low, high


def meet(x: Integers, *spans: Span) -> tuple[Dim, Dim] | None:
    """The bounds of those elements that are in all of these spans; None where none can be. What cannot be compared is left out."""
    low, high = x.low, x.high
    for least, greatest in spans:
        if least is not None and definitely_le(low, least):
            low = least
        if greatest is not None and definitely_le(greatest, high):
            high = greatest
    return None if definitely_le(high + 1, low) else (low, high)


def fitted(x: Integers, aval: Aval) -> Integers:
    """The result of arithmetic in a dtype, which wraps around: nothing but the dtype is known where it may."""
    least, greatest = limits(aval.dtype)
    return x if _fits(x.low, least, greatest) and _fits(x.high, least, greatest) else unknown(aval)


def _fits(dim: Dim, least: int, greatest: int) -> bool:
    if is_static(dim):
        return least <= dim <= greatest
    low, high = bounds(dim)
    size = _magnitude(dim)
    if size is None:
        return False
    return (least <= low or least <= -size) and (high <= greatest or size <= greatest)


def _magnitude(dim: Dim, depth: int = 4) -> int | None:
    """A number that an expression is not farther from 0 than, its symbols being no larger than usual; None for long expressions."""
    if is_static(dim):
        return abs(int(dim))
    terms = dim_expression(dim)
    if len(terms) > _MOST_TERMS or not depth:
        return None
    sizes = [_product(factors, depth - 1) for _, factors in terms]
    total = 0
    for (coefficient, _), size in zip(terms, sizes, strict=True):
        if size is None:
            return None
        total += abs(coefficient) * size
    return total


def _product(factors: Sequence[tuple[Factor, int]], depth: int) -> int | None:
    """The magnitude of a product of symbols and operations; different symbols together count as one."""
    size, largest_power = 1, 0
    for factor, exponent in factors:
        if isinstance(factor, str):
            largest_power = max(largest_power, exponent)
            continue
        operation, operands = factor
        inner = [_magnitude(operand, depth) for operand in operands]
        if None in inner:
            return None
        of = {"mod": inner[1:], "floordiv": inner[:1]}.get(operation, inner)
        size *= max(x for x in of if x is not None) ** exponent
    return int(size * math.pow(_LARGE, largest_power))
