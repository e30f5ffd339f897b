"""`FoldFlags`: booleans that become numbers and are compared back stay booleans."""

from __future__ import annotations

__all__ = ["FoldFlags"]

import dataclasses
from collections.abc import Callable, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import COMPARISONS, operation, other_operand, scalar

_VIEWS = ("Unsqueeze", "Squeeze", "Reshape", "Transpose", "Expand")
_LONGEST = 6  # views between the cast and the comparison


@dataclasses.dataclass(frozen=True)
class _Flag:
    """A tensor of two numbers.

    Attributes:
      flags: booleans that are broadcast with each other; all of them are True where the number is `high`.
      high, low: the numbers.
      views: the nodes that make views of it, in order.
    """

    flags: Sequence[ir.Value]
    high: float
    low: float
    views: Sequence[ir.Node] = ()


@dataclasses.dataclass(frozen=True)
class _Folded:
    """A comparison that equals a flag or its negation."""

    flag: _Flag
    negated: bool


class FoldFlags(NodePass[_Folded]):
    """Masks are often numbers for a while, multiplied or selected, before they are compared:

    1. A comparison of `Cast(b)`, b boolean, with a number that tells 1 from 0 is b, or not b.
    2. So is one of `Where(b, number, number)`, and a cast of these to booleans.
    3. One of the product of `Cast(a)` and `Cast(b)` is `And(a, b)`.
    4. Views between the cast and the comparison are views of b.
    5. `Not(Not(b))` is b.
    """

    phase = Phase.SIMPLIFY
    after = (FoldConstants,)
    operators = frozenset({*COMPARISONS, "Cast", "Not"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Folded | None:
        if node.op_type == "Not":
            inner = operation(node.inputs[0], "Not")
            return None if inner is None or inner.inputs[0] is None else _Folded(_Flag([inner.inputs[0]], 1, 0), False)
        found = _cast(node) if node.op_type == "Cast" else _compared(node)
        if found is None or not same_dims(dims_of(found[0]), dims_of(node.outputs[0])):
            return None
        value, test = found
        flag = _flag(value)
        if flag is None or test(flag.high) == test(flag.low):
            return None
        return _Folded(flag, negated=test(flag.low))

    def rewrite(self, node: ir.Node, match: _Folded, editor: GraphEditor) -> None:
        builder = editor.before(node)
        value = _written(builder, match.flag)
        editor.replace(node, builder.op.Not(value) if match.negated else value)


def _cast(node: ir.Node) -> tuple[ir.Value | None, Callable[[float], bool]] | None:
    """(the operand, bool), where the node casts numbers to booleans."""
    value = node.inputs[0]
    is_test = node.outputs[0].dtype == ir.DataType.BOOL and value is not None and value.dtype != ir.DataType.BOOL
    return (value, bool) if is_test else None


def _compared(node: ir.Node) -> tuple[ir.Value | None, Callable[[float], bool]] | None:
    """(x, whether the comparison `node` of a number x with a constant one is true)."""
    compare = COMPARISONS[node.op_type]
    for index, value in enumerate(node.inputs):
        number = scalar(other_operand(node, value))
        if number is not None:
            return value, _test(compare, number, first=index == 0)
    return None


def _test(compare: Callable[[float, float], bool], number: float, *, first: bool) -> Callable[[float], bool]:
    """A test that compares a number with `number`, as the first operand or the second."""
    return lambda x: compare(x, number) if first else compare(number, x)


def _flag(value: ir.Value | None) -> _Flag | None:
    """The flag that `value` is."""
    views: list[ir.Node] = []
    while len(views) < _LONGEST and (view := operation(value, *_VIEWS)) is not None:
        views.insert(0, view)
        value = view.inputs[0]
    found = _two_numbers(value)
    return None if found is None else dataclasses.replace(found, views=views)


def _two_numbers(value: ir.Value | None) -> _Flag | None:
    node = operation(value, "Cast", "Where", "Mul")
    if node is None:
        return None
    if node.op_type == "Mul":
        parts = [_two_numbers(operand) for operand in node.inputs]
        is_product = all(part is not None and (part.high, part.low) == (1, 0) for part in parts)
        return _Flag([flag for part in parts if part for flag in part.flags], 1, 0) if is_product else None
    first = node.inputs[0]
    if first is None:
        return None
    if node.op_type == "Where":
        high, low = map(scalar, node.inputs[1:])
        is_flag = high is not None and low is not None and same_dims(dims_of(first), dims_of(node.outputs[0]))
        return _Flag([first], high or 0.0, low or 0.0) if is_flag else None
    return _Flag([first], 1, 0) if first.dtype == ir.DataType.BOOL else None


def _written(builder: InsertionPoint, flag: _Flag) -> ir.Value:
    """The flag as booleans, with its views."""
    value, *others = flag.flags
    for other in others:
        value = builder.op.And(value, other)
    for view in flag.views:
        value = builder.variant(view, [value, *view.inputs[1:]], dims=labelled(dims_of(view.outputs[0]) or ()))
    return value
