"""`Size`: a number of elements as a polynomial of symbols, so that products of labelled dimensions can be compared and divided."""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.expressions import parsed

__all__ = ["ONE", "LabelledDim", "Size", "estimated_elements", "product", "size_of"]

#: A dimension as a model shows it: a number, or a label.
LabelledDim = int | ir.SymbolicDim

#: Factors, sorted: symbols, and expressions that are no sums or products; none for 1.
_Monomial = tuple[str, ...]

#: The size that a symbolic dimension is taken to have where the work of two graphs is compared.
_ESTIMATE = 16

_MOST_TERMS = 32

# The first character of the factor that a dimension without a label is.
_UNLABELLED = "?"


@dataclasses.dataclass(frozen=True)
class Size:
    """A polynomial with integers as coefficients; equal ones are equal for all values of the symbols.

    Attributes:
      terms: the products of symbols with their coefficients, none of them 0, in the order of their names.
    """

    terms: tuple[tuple[_Monomial, int], ...]

    @functools.cached_property
    def number(self) -> int | None:
        """The number that it is; None where it has symbols."""
        match self.terms:
            case ():
                return 0
            case (((), number),):
                return number
        return None

    @property
    def dim(self) -> LabelledDim:
        """The size as a dimension: the number, or the label, as JAX writes it; without a label if a factor has none."""
        if (number := self.number) is not None:
            return number
        is_labelled = not any(name.startswith(_UNLABELLED) for monomial, _ in self.terms for name in monomial)
        return ir.SymbolicDim(_label(self.terms) if is_labelled else None)

    def __mul__(self, other: Size) -> Size:
        match self.number, other.number:
            case 1, _:
                return other
            case int(a), int(b):
                return _of_number(a * b)
        products: Counter[_Monomial] = Counter()
        for own, a in self.terms:
            for its, b in other.terms:
                products[tuple(sorted((*own, *its)))] += a * b
        return _size(products)

    def divided_by(self, other: Size) -> Size | None:
        """The size that gives this one when it is multiplied by `other`; None where there is none.

        >>> size_of([ir.SymbolicDim("2*B*T + 2*B")]).divided_by(size_of([ir.SymbolicDim("T + 1")])).dim.value
        '2*B'
        """
        match self.number, other.number:
            case (_, 0):
                return None
            case (_, 1):
                return self
            case int(whole), int(part):
                return None if whole % part else _of_number(whole // part)
        symbols = sorted({name for monomial, _ in (*self.terms, *other.terms) for name in monomial})

        def order(term: tuple[_Monomial, int]) -> tuple[int, ...]:
            return (len(term[0]), *map(term[0].count, symbols))

        rest, quotient = dict(self.terms), Counter[_Monomial]()
        divisor, leading = max(other.terms, key=order)
        while rest and len(quotient) < _MOST_TERMS:
            monomial, coefficient = max(rest.items(), key=order)
            factors = Counter(monomial)
            factors.subtract(divisor)
            if coefficient % leading or min(factors.values(), default=0) < 0:
                return None
            factor, number = tuple(sorted(factors.elements())), coefficient // leading
            quotient[factor] += number
            for own, times in other.terms:
                product = tuple(sorted((*own, *factor)))
                rest[product] = rest.get(product, 0) - times * number
                if not rest[product]:
                    del rest[product]
        return None if rest else _size(quotient)


def size_of(dims: Iterable[LabelledDim]) -> Size:
    """The product of dimensions.

    >>> size_of([ir.SymbolicDim("B"), 2, ir.SymbolicDim("B*T + B")]).dim.value
    '2*B^2*T + 2*B^2'
    """
    number, symbolic = 1, []
    for dim in dims:
        if isinstance(dim, int):
            number *= dim
        else:
            symbolic.append(dim)
    size = _of_number(number)
    for dim in symbolic:
        size *= Size((((f"{_UNLABELLED}{id(dim)}",), 1),)) if dim.value is None else _labelled_size(dim.value)
    return size


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes, 1 for none."""
    return functools.reduce(Size.__mul__, sizes, ONE)


def estimated_elements(dims: Iterable[LabelledDim]) -> int:
    """The number of elements of a tensor, where every symbolic dimension is taken to be 16."""
    return math.prod(dim if isinstance(dim, int) else _ESTIMATE for dim in dims)


def _size(terms: Mapping[_Monomial, int]) -> Size:
    return Size(tuple(sorted((monomial, number) for monomial, number in terms.items() if number)))


#: The size of a tensor with one element.
ONE = Size((((), 1),))


@functools.lru_cache(1024)
def _of_number(number: int) -> Size:
    return _size({(): number})


@functools.lru_cache(1024)
def _labelled_size(label: str) -> Size:
    try:
        return _read(parsed(label))
    except ValueError:  # the label of another producer may be any text
        return Size((((label,), 1),))


def _read(node: ast.expr) -> Size:
    match node:
        case ast.Constant(int(number)):
            return _of_number(number)
        case ast.UnaryOp(ast.USub(), operand):
            return _read(operand) * _of_number(-1)
        case ast.BinOp(left, ast.Mult(), right):
            return _read(left) * _read(right)
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            sign = 1 if isinstance(op, ast.Add) else -1
            total = Counter(dict(_read(left).terms))
            for monomial, number in _read(right).terms:
                total[monomial] += sign * number
            return _size(total)
        case ast.BinOp(base, ast.Pow(), ast.Constant(int(exponent))) if 0 <= exponent <= _MOST_TERMS:
            return functools.reduce(Size.__mul__, [_read(base)] * exponent, ONE)
    return Size((((ast.unparse(node),), 1),))


def _label(terms: Iterable[tuple[_Monomial, int]]) -> str:
    """The text of a polynomial: the products of most symbols first."""
    text = ""
    for monomial, number in sorted(terms, key=lambda term: (-len(term[0]), term[0])):
        powers = [name if n == 1 else f"{name}^{n}" for name, n in Counter(monomial).items()]
        factors = [*([str(abs(number))] if abs(number) != 1 or not powers else []), *powers]
        sign = ("-" if number < 0 else "") if not text else " - " if number < 0 else " + "
        text += sign + "*".join(factors)
    return text
