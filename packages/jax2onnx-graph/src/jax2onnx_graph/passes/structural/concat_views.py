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
    """A Concat of views that leave its axis alone is a view of a Concat.

    A view is Reshape, Squeeze, Unsqueeze or Flatten.

    1. `Concat(view(a), view(b), axis = k)` is `view(Concat(a, b, axis = j))`, where the axis k of each view is the axis j of its tensor:
       the sizes there are equal, and so are all axes in front of both, or all axes behind both.
    2. The other axes of the tensors are those of the first one.
    3. Not all sizes along k are 1: such a Concat is a stack, for which there is `MergeStacks`.

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
        if result[axis] == len(found):
            return None
        first = dims_of(found[0]) or ()
        for place in {axis, axis + len(first) - len(result)} & set(range(len(first))):
            pairs = zip(found, node.inputs, strict=True)
            if all(_is_kept(dims_of(source), place, dims_of(view), axis, first) for source, view in pairs):
                dims = (*first[:place], result[axis], *first[place + 1 :])
                view = view_of(dims, result)
                return None if view is None else _Joined(found, place, dims, view)
        return None

    def rewrite(self, node: ir.Node, match: _Joined, editor: GraphEditor) -> None:
        joined = editor.before(node).op.Concat(*match.operands, axis=match.axis, dims=labelled(match.dims))
        become_view(editor, node, joined, match.view)


def _source(value: ir.Value | None) -> ir.Value | None:
    """The tensor that a value is a view of."""
    node = None if value is None else value.producer()
    is_view = node is not None and not node.domain and facts_of(node.op_type).is_view
    return node.inputs[0] if node is not None and is_view else None


def _is_kept(
    source: Sequence[LabelledDim] | None, place: int, view: Sequence[LabelledDim] | None, axis: int, first: Sequence[LabelledDim]
) -> bool:  # fmt: skip
    """Whether axis `axis` of a view is axis `place` of its tensor, whose other axes are those of `first`."""
    if source is None or view is None or len(source) != len(first) or not same_dim(source[place], view[axis]):
        return False
    if not same_dims((*source[:place], *source[place + 1 :]), (*first[:place], *first[place + 1 :])):
        return False
    return same_dims(source[:place], view[:axis]) or same_dims(source[place + 1 :], view[axis + 1 :])
