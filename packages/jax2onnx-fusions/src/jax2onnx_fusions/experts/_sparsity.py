"""`sparsity`: an upper bound on the nonzero elements of each line of a value."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import named_axes
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.rewrite.patterns import COMPARISONS, is_floating, operation, scalar

__all__ = ["KEEP_ZEROS", "Sparsity", "Validity", "joint_sparsity", "reduced_count", "sparsity"]

_DEPTH = 48


class Validity(enum.IntEnum):
    """Conditions under which a bound holds for each line."""

    ALWAYS = 0
    IF_FINITE = 1
    """If all numbers are finite: zero times infinity is not zero."""
    ON_AVERAGE = 2
    """Only the mean of all lines is known to be within the bound."""


@dataclasses.dataclass(frozen=True)
class Sparsity:
    """A bound on the elements of a line along an axis that are other than zero, or true."""

    bound: int
    validity: Validity = Validity.ALWAYS

    def __add__(self, other: Sparsity) -> Sparsity:
        return Sparsity(self.bound + other.bound, max(self.validity, other.validity))

    def times(self, count: int) -> Sparsity:
        """The bound on the elements of so many lines."""
        return Sparsity(self.bound * count, self.validity)

    def at_best(self, validity: Validity) -> Sparsity:
        """The same bound, which holds only under a condition."""
        return Sparsity(self.bound, max(self.validity, validity))


def sparsity(value: ir.Value | None, rows: SubAxis, size: int) -> Sparsity | None:
    """The bound for lines along an axis, as the operators that made the value prove it; None where there is none.

    Args:
      value: the value.
      rows: the axis, which may be merged with others.
      size: the number of elements of a line.
    """
    return joint_sparsity(value, (rows,), (size,))


def joint_sparsity(
    value: ir.Value | None, rows: Sequence[SubAxis], sizes: Sequence[int], depth: int = _DEPTH
) -> Sparsity | None:
    """The bound for tables along several axes: the elements of each are those at one place along all other axes.

    Args:
      value: the value.
      rows: the axes, which may be merged with others.
      sizes: their sizes.
      depth: the length of the chain of nodes that is looked at.
    """
    if value is None or not depth:
        return None
    if value.dtype != ir.DataType.BOOL and scalar(value) == 0:
        return Sparsity(0)
    node = value.producer()
    if node is None:
        return _of_constant(value, rows)
    if node.domain:
        return None
    lines = _Lines(node, tuple(rows), tuple(sizes), depth - 1)
    if facts_of(node.op_type).is_view or node.op_type in KEEP_ZEROS:
        return lines.operand(0)
    rule = _RULES.get(node.op_type)
    return None if rule is None else rule(lines)


@dataclasses.dataclass(frozen=True)
class _Lines:
    """Lines of a node's result along an axis, or tables along several."""

    node: ir.Node
    rows: tuple[SubAxis, ...]
    sizes: tuple[int, ...]
    depth: int

    def rows_of(self, index: int) -> tuple[SubAxis | None, ...]:
        """The rows of an operand; None for an axis along which it is the same, and for all where rows depend on others."""
        found = [operand_sub_axes(self.node, rows) for rows in self.rows]
        return tuple(None if None in found or one is None else one[index] for one in found)

    def part(self, index: int) -> Sparsity | None:
        """The bound for an operand along those axes that it has; None where it has none of them."""
        pairs = [(own, size) for own, size in zip(self.rows_of(index), self.sizes, strict=True) if own is not None]
        rows, sizes = [own for own, _ in pairs], [size for _, size in pairs]
        return joint_sparsity(self.node.inputs[index], rows, sizes, self.depth) if pairs else None

    def operand(self, index: int) -> Sparsity | None:
        """The bound for an operand that has all of the axes."""
        if None not in self.rows_of(index):
            return self.part(index)
        value = self.node.inputs[index]
        return Sparsity(0) if value is not None and scalar(value) == 0 and not _is_bool(value) else None

    def apart(self) -> Sparsity | None:
        """The bound for elements at which both operands are not zero, where each has some of the axes, and neither has one of the other's."""
        rows = [self.rows_of(index) for index in (0, 1)]
        if not all(map(any, rows)) or any((one is None) == (other is None) for one, other in zip(*rows, strict=True)):
            return None
        first, second = self.part(0), self.part(1)
        if first is None or second is None:
            return None
        return Sparsity(first.bound * second.bound, max(first.validity, second.validity))


def _is_bool(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.BOOL


def _of_constant(value: ir.Value, rows: Sequence[SubAxis]) -> Sparsity | None:
    array = known(value)
    if array is None or not all(own.is_whole and own.axis < array.ndim for own in rows):
        return None
    return Sparsity(int(np.count_nonzero(array, axis=tuple(own.axis for own in rows)).max(initial=0)))


def _least(found: list[Sparsity | None]) -> Sparsity | None:
    return min((one for one in found if one is not None), key=lambda one: (one.bound, one.validity), default=None)


def _product(line: _Lines) -> Sparsity | None:
    """Zero times a number is zero, if that is finite; of booleans, always."""
    least = _least([line.apart(), *(line.operand(i) for i in range(len(line.node.inputs)))])
    if least is None or not is_floating(line.node.outputs[0]):
        return least
    return least.at_best(Validity.IF_FINITE)


def _quotient(line: _Lines) -> Sparsity | None:
    found = line.operand(0)
    return None if found is None else found.at_best(Validity.IF_FINITE)


def _sum(line: _Lines) -> Sparsity | None:
    total = Sparsity(0)
    for index in range(len(line.node.inputs)):
        found = line.operand(index)
        if found is None:
            return None
        total += found
    return total


def _where(line: _Lines) -> Sparsity | None:
    condition, taken, other = (line.operand(i) for i in range(3))
    if other is None:
        return None
    first = _least([condition, taken])
    return None if first is None else first + other


def _equal(line: _Lines) -> Sparsity | None:
    """One of several different numbers is equal to a number that is the same along the axis."""
    for index in (0, 1):
        array, (rows, *others) = known(line.node.inputs[index]), line.rows_of(index)
        if array is None or rows is None or not rows.is_whole or others or any(line.rows_of(1 - index)):
            continue
        if array.size == array.shape[rows.axis] == len(np.unique(array)):
            return Sparsity(1)
    return None


def _comparison(line: _Lines) -> Sparsity | None:
    """A comparison with a number that is not true of zero is true of no more elements than are other than zero."""
    compare = COMPARISONS[line.node.op_type]
    for index in (0, 1):
        number = scalar(line.node.inputs[1 - index])
        if number is not None and not (compare(0, number) if index == 0 else compare(number, 0)):
            return line.operand(index)
    return None


def _equality(line: _Lines) -> Sparsity | None:
    return _equal(line) or _comparison(line)


def _not(line: _Lines) -> Sparsity | None:
    """Elements that are not equal to zero are other than zero."""
    equal = operation(line.node.inputs[0], "Equal")
    if equal is None:
        return None
    for index in (0, 1):
        if scalar(equal.inputs[1 - index]) == 0:
            return dataclasses.replace(line, node=equal).operand(index)
    return None


def _reduction(line: _Lines) -> Sparsity | None:
    """The bound of one line times the number of lines that are reduced: each may hold other elements."""
    found, count = line.operand(0), reduced_count(line.node)
    return None if found is None or count is None else found.times(count)


def reduced_count(node: ir.Node) -> int | None:
    """The number of elements that a reduction makes one of; None where it is not known."""
    dims = dims_of(node.inputs[0])
    axes = None if dims is None else named_axes(node, len(dims))
    return None if dims is None or axes is None else size_of([dims[axis] for axis in axes]).number


def _matmul(line: _Lines) -> Sparsity | None:
    """The bound times the contracted size, where only the right operand has the axes, or each operand some of them."""
    dims = dims_of(line.node.inputs[0])
    if dims is None or not isinstance(dims[-1], int):
        return None
    found = line.apart() if any(line.rows_of(0)) else line.part(1)
    return None if found is None else found.times(dims[-1]).at_best(Validity.IF_FINITE)


def _scatter(line: _Lines) -> Sparsity | None:
    """The bound for numbers that are scattered to zeros, or for a part of them: there are as many as updates.

    Updates without a place in the array may have gone to rows that were sliced off.
    """
    value, size = line.node.outputs[0], math.prod(line.sizes)
    source: ir.Value | None = value
    for _ in range(_DEPTH):
        node = None if source is None else source.producer()
        if node is None or node.domain:
            return None
        if node.op_type in _SCATTERS:
            return _written(node, value, size) if _is_zero(node.inputs[0]) else None
        if not (facts_of(node.op_type).is_view or node.op_type in KEEP_ZEROS or node.op_type == "Slice"):
            return None
        source = node.inputs[0]
    return None


def _is_zero(value: ir.Value | None) -> bool:
    """Whether all elements are zero; a scatter may have got one more row for what has no place."""
    joined = operation(value, "Concat")
    return all(_is_zero(part) for part in joined.inputs) if joined is not None else scalar(value) == 0


def _written(scatter: ir.Node, value: ir.Value, size: int) -> Sparsity | None:
    """The bound on the elements that a scatter writes to a line of `size` elements of a value, on average."""
    data, updates = dims_of(value), dims_of(scatter.inputs[2])
    if data is None or updates is None:
        return None
    match size_of(data).terms, size_of(updates).terms:
        case ((symbols, total),), ((same, written),) if symbols == same:
            return Sparsity(-(-written * size // total), Validity.ON_AVERAGE)
    return None


def _softmax(line: _Lines) -> Sparsity | None:
    """The softmax of a line is zero wherever its operand is minus infinity."""
    value, (rows, *others), (size, *_) = line.node.inputs[0], line.rows, line.sizes
    while (node := None if value is None else value.producer()) is not None and facts_of(node.op_type).is_view:
        before = operand_sub_axes(node, rows)
        if before is None or before[0] is None:
            return None
        value, rows = node.inputs[0], before[0]
    if node is None or node.domain or others:
        return None
    if node.op_type in _SCATTERS and scalar(node.inputs[0]) == -np.inf:
        return _written(node, node.outputs[0], size)
    if node.op_type != "Where" or scalar(node.inputs[2]) != -np.inf:
        return None
    condition = (operand_sub_axes(node, rows) or [None])[0]
    found = None if condition is None else joint_sparsity(node.inputs[0], [condition], [size], line.depth)
    return None if found is None else found.at_best(Validity.IF_FINITE)


_SCATTERS = ("ScatterElements", "ScatterND")
KEEP_ZEROS = frozenset({
    "Abs", "Atan", "Cast", "Ceil", "Celu", "Elu", "Erf", "Floor", "Gelu", "HardSwish", "Identity", "LeakyRelu", "Mish", "Neg", "Relu",
    "Round", "Selu", "Sign", "Sin", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "Transpose",
})  # fmt: skip

_RULES: Mapping[str, Callable[[_Lines], Sparsity | None]] = {
    "Add": _sum,
    "And": _product,
    "Div": _quotient,
    "Equal": _equality,
    "Greater": _comparison,
    "GreaterOrEqual": _comparison,
    "Less": _comparison,
    "LessOrEqual": _comparison,
    "MatMul": _matmul,
    "Mul": _product,
    "Not": _not,
    "Or": _sum,
    "ReduceMax": _reduction,
    "ReduceSum": _reduction,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Slice": _scatter,
    "Softmax": _softmax,
    "Sub": _sum,
    "Where": _where,
}
