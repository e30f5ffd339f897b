"""Patterns: nodes, numbers, products and squares read backwards from a value, in all ways of writing them."""

from __future__ import annotations

__all__ = [
    "COMPARISONS",
    "Formula",
    "Pattern",
    "Product",
    "copied",
    "is_floating",
    "is_read_once",
    "matches",
    "only_reader",
    "operation",
    "other_operand",
    "permutation_of",
    "product",
    "scalar",
    "source_of",
    "square_of",
    "without_axis",
]

import dataclasses
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import SMALL, dims_of, known, same_dim
from jax2onnx_graph.traversal import is_read

#: Operators that compare two numbers → their meaning in Python.
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
}


def operation(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node that computes `value`, if it is one of these operators of ONNX's own domain."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in op_types and not node.domain else None


def source_of(value: ir.Value | None, *op_types: str) -> ir.Value | None:
    """The value from which these operators, one after another by their first operands, make a value."""
    while (node := operation(value, *op_types)) is not None:
        value = node.inputs[0]
    return value


def scalar(value: ir.Value | None, limit: int = SMALL) -> float | None:
    """The number that every element of the constant `value` is; None for other values, booleans and empty tensors.

    Integers are exact, as Python's. Constants of more than `limit` elements are not looked at.
    """
    array = known(source_of(value, "Expand", "Reshape", "Unsqueeze"), limit)
    if array is None or not array.size or array.dtype.kind == "b":
        return None
    first = int(array.flat[0]) if array.dtype.kind in "iu" else float(array.flat[0])
    return first if array.size == 1 or bool((array == array.flat[0]).all()) else None


def without_axis(value: ir.Value | None, axis: int) -> ir.Value | None:
    """v where `value` is v with an axis of size 1 put in at `axis`."""
    node = operation(value, "Unsqueeze", "Reshape")
    if node is None or node.inputs[0] is None:
        return None
    before, after = dims_of(node.inputs[0]), dims_of(value)
    if before is None or after is None or len(after) != len(before) + 1:
        return None
    expected = (*before[:axis], 1, *before[axis:])
    return node.inputs[0] if all(map(same_dim, expected, after)) else None


def copied(value: ir.Value) -> ir.Value:
    """The value that Identity nodes copy, or `value` itself."""
    while (node := operation(value, "Identity")) is not None and node.inputs[0] is not None:
        value = node.inputs[0]
    return value


def is_floating(value: ir.Value | None) -> bool:
    """Whether the elements of `value` are known to be floating-point numbers."""
    return value is not None and value.dtype is not None and value.dtype.is_floating_point()


def only_reader(value: ir.Value | None) -> ir.Node | None:
    """The one node that reads `value`, and once, of those whose results are used, in whatever graph; None for an output of the graph."""
    if value is None or value.is_graph_output():
        return None
    living = list(itertools.islice((user for user, _ in value.uses() if is_read(user)), 2))
    return living[0] if len(living) == 1 else None


def is_read_once(value: ir.Value | None) -> bool:
    """Whether `value` is read once, by a node whose results are used, and is no output of the graph."""
    return only_reader(value) is not None


def other_operand(node: ir.Node, one: ir.Value | None) -> ir.Value | None:
    """The operand of a binary node that is not `one`."""
    first, second = node.inputs
    return second if first is one else first


def permutation_of(transpose: ir.Node) -> tuple[int, ...]:
    """The permutation of a Transpose; without the attribute, all axes of the operand in reverse order."""
    perm = transpose.attributes.get_ints("perm", None)
    return tuple(reversed(range(len(dims_of(transpose.inputs[0]) or ())))) if perm is None else tuple(perm)


class Formula:
    """An operator of ONNX's own domain on patterns of all its operands, in any order where it is commutative."""

    def __init__(self, op_type: str, *operands: Pattern) -> None:
        self.op_type, self.operands = op_type, operands

    def ways(self, value: ir.Value | None, bound: Mapping[str, ir.Value]) -> Iterator[Mapping[str, ir.Value]]:
        """See `matches`."""
        node = operation(value, self.op_type)
        if node is None or len(node.inputs) != len(self.operands):
            return
        for order in itertools.permutations(node.inputs) if facts_of(self.op_type).is_commutative else [node.inputs]:
            found = [bound]
            for pattern, one in zip(self.operands, order, strict=True):
                found = [further for each in found for further in matches(pattern, one, each)]
            yield from found


#: A formula; the name of whatever value stands there; the number that all elements are; or several patterns, of which one fits.
Pattern = Formula | str | float | tuple["Pattern", ...]


def matches(
    pattern: Pattern, value: ir.Value | None, bound: Mapping[str, ir.Value] | None = None
) -> Iterator[Mapping[str, ir.Value]]:
    """The values that the names in a pattern stand for, for each way to read a value as it.

    Args:
      pattern: the pattern, in which one name always stands for the same value.
      value: the value.
      bound: what some of the names stand for already.
    """
    bound = bound or {}
    if isinstance(pattern, str):
        if value is not None and bound.get(pattern, value) is value:
            yield {**bound, pattern: value}
    elif isinstance(pattern, tuple):
        for one in pattern:
            yield from matches(one, value, bound)
    elif isinstance(pattern, Formula):
        yield from pattern.ways(value, bound)
    elif scalar(value) == pattern:
        yield bound


@dataclasses.dataclass
class Product:
    """`coefficient` times the product of `factors`."""

    coefficient: float
    factors: Counter[ir.Value]

    def without(self, factor: ir.Value) -> Product | None:
        """The product of the other factors; None where `factor` is not one of them."""
        return Product(self.coefficient, self.factors - Counter([factor])) if self.factors[factor] else None


def product(value: ir.Value | None) -> Product:
    """`value` as a product, multiplications, negations, divisions by numbers, squares and cubes taken apart.

    They are taken apart to a small depth, and only where nothing else reads them.
    """
    result = Product(1.0, Counter())
    for factor, number in _factors(value, 6):
        if factor is None:
            result.coefficient *= number
        else:
            result.factors[factor] += int(number)
    return result


def square_of(value: ir.Value | None) -> ir.Value | None:
    """The value x where `value` is x², by Mul or Pow; else None."""
    found = next(matches(_SQUARE, value), None)
    return None if found is None else found["x"]


_SQUARE = (Formula("Mul", "x", "x"), Formula("Pow", "x", 2))


def _factors(value: ir.Value | None, depth: int) -> Iterator[tuple[ir.Value | None, float]]:
    """The factors of a product: (None, number) for a number, (factor, exponent) for any other."""
    if value is None:
        return
    node = operation(value, "Mul", "Neg", "Div", "Pow") if depth else None
    number = scalar(value) if node is None else None
    if number is not None:
        yield None, number
        return
    right = scalar(node.inputs[1]) if node is not None and node.op_type in ("Div", "Pow") else None
    if node is None or (node.op_type == "Div" and not right) or (node.op_type == "Pow" and right not in (2, 3)):
        yield value, 1
    elif node.op_type == "Pow" and right is not None:
        yield node.inputs[0], right
    else:
        if node.op_type != "Mul":
            yield None, 1 / right if right else -1.0
        for operand in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
            yield from _factors(operand, depth - 1 if is_read_once(operand) else 0)
