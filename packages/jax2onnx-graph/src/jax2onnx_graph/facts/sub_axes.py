"""`SubAxis`: an axis that is followed from the results of nodes to their operands, or the other way, also where it is merged with others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axis_maps import Axes, AxisMaps, Iteration, IterationAxis, axis_maps
from jax2onnx_graph.facts.sizes import ONE, Size, product, size_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of

__all__ = ["SubAxis", "operand_sub_axes", "result_sub_axes"]

_Dims = tuple[LabelledDim, ...]


@dataclasses.dataclass(frozen=True)
class SubAxis:
    """An axis of a tensor, or one of the axes that were merged into it. A row is the slice at one of its indices.

    Attributes:
      axis: the axis.
      outer: the product of the sizes in front of it that were merged with it.
      inner: the product of those behind it.
    """

    axis: int
    outer: Size = ONE
    inner: Size = ONE

    @property
    def is_whole(self) -> bool:
        """Whether no other axis was merged into the axis."""
        return self.outer == ONE == self.inner

    def before(self, dims: _Dims) -> tuple[Size, ...]:
        """The sizes in front of the sub-axis, for a tensor of these dimensions."""
        merged = () if self.outer == ONE else (self.outer,)
        return (*(size_of([dim]) for dim in dims[: self.axis]), *merged)


def operand_sub_axes(node: ir.Node, rows: SubAxis, maps: AxisMaps | None = None) -> Sequence[SubAxis | None] | None:
    """Find the sub-axes of operands whose rows a node computes the rows of its results from, one from one.

    Row i of a result then depends on rows i of these operands, and on the others as a whole; so the node computes of
    some rows, in any order, what it computes of them among all.

    Args:
      node: the node.
      rows: the sub-axis of its results.
      maps: the axes of the node, where they are known already.

    Returns:
      One entry for each operand, None for those that every row depends on; None where a row depends on other rows, or
      nothing is known.
    """
    maps, dims = maps or axis_maps(node), dims_of(node.outputs[0])
    if maps is None or dims is None or not 0 <= rows.axis < len(dims):
        return None
    return _elsewhere(maps.results[0], rows, dims[rows.axis], maps.operands)


def result_sub_axes(node: ir.Node, index: int, rows: SubAxis) -> Sequence[SubAxis | None] | None:
    """Find the sub-axes of results whose rows a node computes from the rows of one operand, one from one.

    Returns:
      One entry for each result, None for those that have no such axis, since the operand's is summed over; None where a row
      of a result depends on other rows of the operand, or nothing is known.
    """
    maps, dims = axis_maps(node), dims_of(node.inputs[index])
    own = None if maps is None else maps.operands[index]
    if maps is None or own is None or dims is None:
        return None
    return _elsewhere(own, rows, dims[rows.axis], maps.results)


def _elsewhere(
    axes: Axes, rows: SubAxis, dim: LabelledDim, others: Sequence[Axes | None]
) -> Sequence[SubAxis | None] | None:
    """The sub-axis of one tensor of a node, whose axis has the size `dim`, in the other tensors."""
    size, group = size_of([dim]).divided_by(rows.outer * rows.inner), axes[rows.axis]
    sizes = [axis.size for axis in group]
    for i, axis in enumerate(group):
        outer, inner = rows.outer.divided_by(product(sizes[:i])), rows.inner.divided_by(product(sizes[i + 1 :]))
        if size is None or outer is None or inner is None or outer * size * inner != axis.size:
            continue
        if axis.iteration is Iteration.OTHER:
            return None
        return [None if tensor is None else _within(tensor, axis, outer, inner) for tensor in others]
    return None


def _within(axes: Axes, axis: IterationAxis, outer: Size, inner: Size) -> SubAxis | None:
    """The part of an iteration axis between `outer` and `inner`, in a tensor; None where the tensor has no such axis."""
    for place, group in enumerate(axes):
        if axis in group:
            i, sizes = group.index(axis), [one.size for one in group]
            return SubAxis(place, product(sizes[:i]) * outer, inner * product(sizes[i + 1 :]))
    return None
