"""Axes of values as products of indivisible ones, followed through views and products, which tells which of them are the same.

An axis of a tensor is a sequence of indivisible axes in row-major order, none if its size is 1. An axis turns out to be
divisible where a reshape takes it apart, or where a product meets it with a finer one; then it consists of its parts
wherever it is mentioned.
"""

from __future__ import annotations

__all__ = [
    "Axes",
    "Axis",
    "atoms",
    "axes_in",
    "axes_of",
    "product_axes",
    "resolved",
    "size_of",
    "through",
    "unify",
]

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts import sizes
from jax2onnx_graph.facts.axis_maps import Iteration, IterationAxis, axis_maps
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim

from jax2onnx_fusions._reasons import UnreadableError


@dataclasses.dataclass(eq=False)
class Axis:
    """An axis of this size.

    Attributes:
      parts: the axes that it consists of or is the same as; None while it is not known to be anything else.
    """

    size: LabelledDim
    parts: tuple[Axis, ...] | None = None


#: The axes of a tensor, each in indivisible ones.
Axes = tuple[tuple[Axis, ...], ...]


def atoms(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The indivisible axes of which these consist."""
    found: list[Axis] = []
    for axis in axes:
        found.extend([axis] if axis.parts is None else atoms(axis.parts))
    return tuple(found)


def resolved(axes: Axes) -> Axes:
    """The axes in terms of those that are indivisible by now."""
    return tuple(map(atoms, axes))


def axes_in(axes: Axes) -> tuple[Axis, ...]:
    """All indivisible axes of a tensor in row-major order."""
    return atoms([axis for group in axes for axis in group])


def axes_of(value: ir.Value | None) -> Axes:
    """New axes for a value.

    Raises:
      UnreadableError: its shape is not known.
    """
    return tuple(() if dim == 1 else (Axis(dim),) for dim in _dims(value))


def size_of(axes: Sequence[Axis]) -> LabelledDim:
    """The size of an axis that consists of these.

    Raises:
      UnreadableError: it has no label.
    """
    dim = sizes.size_of([axis.size for axis in axes]).dim
    if not isinstance(dim, int) and dim.value is None:
        raise UnreadableError("a size is a product of dimensions without labels")
    return dim


def unify(one: Sequence[Axis], other: Sequence[Axis]) -> None:
    """Let two sequences of axes be the same.

    Raises:
      UnreadableError: their sizes do not fit.
    """
    left, right = list(atoms(one)), list(atoms(other))
    while left and right:
        x, y = left[0], right[0]
        if x is not y and same_dim(x.size, y.size):
            y.parts = (x,)
        elif x is not y and not (_divide(x, y.size) or _divide(y, x.size)):
            raise UnreadableError("axes of different sizes meet")
        left, right = list(atoms(left)), list(atoms(right))
        if left[0] is right[0]:
            left, right = left[1:], right[1:]
    if left or right:
        raise UnreadableError("axes of different sizes meet")


def _divide(axis: Axis, outer: LabelledDim) -> bool:
    """Split an axis into one of this size and the rest; returns whether that can be done."""
    rest = sizes.size_of([axis.size]).divided_by(sizes.size_of([outer]))
    if rest is None or rest.number == 1:
        return False
    axis.parts = (Axis(outer), Axis(rest.dim))
    return True


def _dims(value: ir.Value | None) -> tuple[LabelledDim, ...]:
    dims = dims_of(value)
    if dims is None or 0 in dims:
        raise UnreadableError("a shape is not known, or a tensor is empty")
    return dims


# ---------------------------------------------------------------------------------------------- nodes


def through(node: ir.Node, axes: Axes) -> Axes:
    """The axes of the result of a node that moves, joins, splits or repeats the axes of its first operand.

    Raises:
      UnreadableError: the node is a view that mixes axes.
    """
    return _Indivisible(node, axes).result()


def product_axes(node: ir.Node, left: Axes, right: Axes) -> tuple[Axes, tuple[Axis, ...]]:
    """The axes of the result of a product of operands with these axes, and the axis that is contracted.

    Raises:
      UnreadableError: axes of other sizes meet.
    """
    found = _Indivisible(node, left, right)
    return found.result(), found.contracted()


class _Indivisible:
    """The indivisible axes that each iteration axis of a node is, given those of its operands.

    Raises:
      UnreadableError: they cannot be told.
    """

    def __init__(self, node: ir.Node, *operands: Axes) -> None:
        maps = axis_maps(node)
        if maps is None or any(own is None for own in maps.operands[: len(operands)]):
            raise UnreadableError("a shape is not known, or a tensor is empty")
        self._maps = maps
        self._found: dict[IterationAxis, tuple[Axis, ...]] = {}
        for own, axes in zip(maps.operands, operands, strict=False):
            for iteration_axes, group in zip(own or (), axes, strict=True):
                self._bind(iteration_axes, group)

    def _bind(self, iteration_axes: Sequence[IterationAxis], group: Sequence[Axis]) -> None:
        """Let an axis of an operand, which consists of `group`, be the iteration axes."""
        if any(axis.iteration is Iteration.OTHER for axis in iteration_axes):
            raise UnreadableError("a reshape mixes axes")
        if len(iteration_axes) == 1 and iteration_axes[0] not in self._found:
            self._found[iteration_axes[0]] = tuple(group)
        else:
            unify(group, [part for axis in iteration_axes for part in self._parts(axis)])

    def _parts(self, axis: IterationAxis) -> tuple[Axis, ...]:
        """The axes that an iteration axis is, new ones where no operand has told them."""
        if axis not in self._found:
            self._found[axis] = () if axis.size.number == 1 else (Axis(axis.size.dim),)
        return self._found[axis]

    def result(self) -> Axes:
        """The axes of the result."""
        groups = self._maps.results[0]
        if any(axis.iteration is Iteration.OTHER for group in groups for axis in group):
            raise UnreadableError("axes of different sizes meet, or a reshape mixes axes")
        return tuple(atoms([one for axis in group for one in self._parts(axis)]) for group in groups)

    def contracted(self) -> tuple[Axis, ...]:
        """The axis that is summed over."""
        return atoms(
            [one for axis, found in self._found.items() if axis.iteration is Iteration.SUMMED for one in found]
        )
