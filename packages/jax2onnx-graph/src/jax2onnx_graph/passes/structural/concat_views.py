"""`ConcatViews`: tensors that are viewed alike and then concatenated are concatenated first."""

from __future__ import annotations

__all__ = ["ConcatViews"]

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim, same_dims
from jax2onnx_graph.passes.structural.merge_reshapes import View, become_view, view_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import only_reader


@dataclasses.dataclass(frozen=True)
class _Joined:
    """A Concat of views as a view of a Concat.

    Attributes:
      operands: the tensors that the operands are views of.
      axis: the axis along which these are concatenated.
      dims: the dimensions of their concatenation.
      view: the operator that views it as the result, with its int64 operand.
    """

    operands: Sequence[ir.Value]
    axis: int
    dims: Sequence[LabelledDim]
    view: View


class ConcatViews(NodePass[_Joined]):
    """A Concat of views that leave the order of elements along its axis alone is a view of a Concat.

    A view is Reshape, Squeeze, Unsqueeze or Flatten.

    1. `Concat(view(a), view(b), axis = k)` is `view(Concat(a, b, axis = j))`, where the axis k of each view is the axis j of its tensor:
       the sizes there are equal, and so are all axes in front of both, or all axes behind both.
    2. So it is where the axes in front of k are those in front of j = k, and the sizes along j are numbers: each operand is appended as a
       whole to the one before it.
    3. The other axes of the tensors are those of the first one.
    4. A stack, whose operands have the size 1 along k, stays unless only a view reads it, which then is a view of the other Concat.

    A cache that a layer splits into heads before it appends to it is so appended to as it is, and an output that is the cache needs no copy.
    """

    phase = Phase.FINISH
    operators = frozenset({"Concat"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Joined | None:
        result = dims_of(node.outputs[0])
        sources = [_source(value) for value in node.inputs]
        found = [source for source in sources if source is not None]
        if result is None or len(found) < 2 or len(found) < len(sources):
            return None
        axis = axis_of(node, len(result))
        if result[axis] == len(found) and not _is_viewed(node):
            return None
        first = dims_of(found[0]) or ()
        for place in {axis, axis + len(first) - len(result)} & set(range(len(first))):
            pairs = list(zip(found, node.inputs, strict=True))
            size: LabelledDim | None = result[axis]
            if not all(_is_kept(dims_of(source), place, dims_of(view), axis) for source, view in pairs):
                size = _appended(found, place) if place == axis and same_dims(first[:axis], result[:axis]) else None
            if size is not None and all(
                same_dims(_without(source, place), _without(found[0], place)) for source in found
            ):
                dims = (*first[:place], size, *first[place + 1 :])
                view = view_of(dims, result)
                return None if view is None else _Joined(found, place, dims, view)
        return None

    def rewrite(self, node: ir.Node, match: _Joined, editor: GraphEditor) -> None:
        joined = editor.before(node).op.Concat(*match.operands, axis=match.axis, dims=labelled(match.dims))
        become_view(editor, node, joined, match.view)


def _source(value: ir.Value | None) -> ir.Value | None:
    """The tensor that a value is a view of."""
    node = None if value is None else value.producer()
    return node.inputs[0] if node is not None and _is_view(node) else None


def _is_view(node: ir.Node) -> bool:
    return not node.domain and facts_of(node.op_type).is_view


def _is_viewed(node: ir.Node) -> bool:
    """Whether the result of a node is read by a view beside it alone."""
    reader = only_reader(node.outputs[0])
    return reader is not None and reader.graph is node.graph and _is_view(reader)


def _is_kept(source: Sequence[LabelledDim] | None, place: int, view: Sequence[LabelledDim] | None, axis: int) -> bool:
    """Whether axis `axis` of a view is axis `place` of its tensor."""
    if source is None or view is None or len(source) <= place or not same_dim(source[place], view[axis]):
        return False
    return same_dims(source[:place], view[:axis]) or same_dims(source[place + 1 :], view[axis + 1 :])


def _appended(tensors: Sequence[ir.Value], place: int) -> int | None:
    """The sum of the sizes of tensors along an axis; None where one is no number."""
    dims = [(dims_of(tensor) or ())[place : place + 1] for tensor in tensors]
    sizes = [dim for own in dims for dim in own if isinstance(dim, int)]
    return sum(sizes) if len(sizes) == len(tensors) else None


def _without(tensor: ir.Value, place: int) -> tuple[LabelledDim, ...] | None:
    """The dimensions of a tensor but for one."""
    dims = dims_of(tensor)
    return None if dims is None else (*dims[:place], *dims[place + 1 :])
