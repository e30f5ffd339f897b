"""Transposes that take ONNX Runtime long, written as those that it has fast kernels for.

Its kernel moves one axis to another place in 1 ns for each element, and copies whole rows where the last axis stays; for any other order,
axes of size 1 counted, it computes the place of each element, which takes 9 ns (seen in 1.32). Its optimiser makes one Transpose of two that
follow each other, but not through a Reshape that joins axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import onnx_ir as ir
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.facts.sizes import LabelledDim, estimated_elements, size_of
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass
from jax2onnx_graph.rewrite.patterns import permutation_of
from jax2onnx_graph.rewrite.permutations import Permutation, permuted

__all__ = ["TransposesPass"]

# From so many elements on, where the further nodes cost a small part of the gain.
_MANY = 4096


@dataclasses.dataclass(frozen=True)
class _Step:
    """A Transpose of an operand in another shape.

    Attributes:
      dims: that shape.
      perm: the permutation, which moves one axis.
    """

    dims: Sequence[LabelledDim]
    perm: Permutation

    @property
    def result(self) -> list[LabelledDim]:
        """The dimensions of the result."""
        return [self.dims[axis] for axis in self.perm]


class TransposesPass(NodePass[Sequence[_Step]]):
    """Write a large Transpose that changes the last axis as Transposes that move one axis each.

    1. Axes of size 1 are left out, and axes that stay side by side are one: if one of these is moved, Reshapes stand around it.
    2. Where two are moved, there is a Transpose for each, with a Reshape that joins axes between them.
    """

    operators = frozenset({"Transpose"})
    forms = "A transposition by fast kernels"

    def match(self, node: ir.Node, editor: GraphEditor) -> Sequence[_Step] | Declined | None:
        dims, perm = dims_of(node.inputs[0]), permutation_of(node)
        if dims is None or estimated_elements(dims) < _MANY or _moves_one(perm):
            return None
        whole = _joined(dims, perm)
        if len(whole.perm) < 2 or whole.perm[-1] == len(whole.perm) - 1:
            return None
        steps = [whole] if _moves_one(whole.perm) else _two_steps(whole)
        if steps is None:
            return Declined("it moves more than two axes", node)
        if any(_sizes(shape) is None for shape in (*(step.dims for step in steps), dims_of(node.outputs[0]) or ())):
            return Declined("two axes are symbolic", node)
        return steps

    def rewrite(self, node: ir.Node, match: Sequence[_Step], editor: GraphEditor) -> None:
        value, dims = node.inputs[0], list(dims_of(node.inputs[0]) or ())
        assert value is not None, "a Transpose has an operand"
        builder = editor.before(node)
        for step in match:
            if list(step.dims) != dims:
                value = builder.op.Reshape(value, _shape(editor, step.dims), dims=labelled(step.dims))
            dims = step.result
            value = builder.op.Transpose(value, perm=step.perm, dims=labelled(dims))
        editor.put(node, "Reshape", [value, _shape(editor, dims_of(node.outputs[0]) or ())])


def _moves_one(perm: Permutation) -> bool:
    """Whether a permutation moves one axis past others."""
    return perm in _moves(len(perm))


def _moves(rank: int) -> Iterator[Permutation]:
    """The permutations that move one axis past others."""
    for axis in range(rank):
        rest = [other for other in range(rank) if other != axis]
        yield from ((*rest[:place], axis, *rest[place:]) for place in range(rank) if place != axis)


def _joined(dims: Sequence[LabelledDim], perm: Permutation) -> _Step:
    """The same transposition without axes of size 1, those that stay side by side joined."""
    kept = [axis for axis in range(len(dims)) if dims[axis] != 1]
    order = [kept.index(axis) for axis in perm if axis in kept]
    starts = [place for place, axis in enumerate(order) if place == 0 or axis != order[place - 1] + 1]
    groups = [order[a:b] for a, b in zip(starts, [*starts[1:], len(order)], strict=True)]
    by_operand = sorted(groups)
    sizes = [size_of([dims[kept[axis]] for axis in group]).dim for group in by_operand]
    return _Step(sizes, tuple(by_operand.index(group) for group in groups))


def _two_steps(whole: _Step) -> Sequence[_Step] | None:
    """Two moves of an axis each that are the whole transposition, of which the second joins axes."""
    for first in _moves(len(whole.perm)):
        step = _Step(whole.dims, first)
        rest = tuple(first.index(axis) for axis in whole.perm)
        second = _joined(step.result, rest)
        if _moves_one(second.perm) and len(second.dims) < len(whole.dims):
            assert permuted(first, rest) == whole.perm, "both moves are the permutation"
            return [step, second]
    return None


def _sizes(dims: Sequence[LabelledDim]) -> list[int] | None:
    """A shape for Reshape, which finds one size by itself; None where it would have to find two."""
    sizes = [dim if isinstance(dim, int) else -1 for dim in dims]
    return sizes if sizes.count(-1) < 2 and 0 not in sizes else None


def _shape(editor: GraphEditor, dims: Sequence[LabelledDim]) -> Value:
    sizes = _sizes(dims)
    assert sizes is not None, "match has looked at all shapes"
    return editor.ints(sizes)
