"""`MergeStacks`: values that are stacked and then flattened are concatenated."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.values import dims_of, known, same_dims
from jax2onnx_graph.passes.structural.merge_reshapes import become_view, view_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import only_reader, without_axis

__all__ = ["MergeStacks"]


@dataclasses.dataclass(frozen=True)
class _Stack:
    """A Concat along an axis that its operands got before.

    Attributes:
      operands: these, without the axis.
      axis: the axis.
      last: the node that reads the stack.
    """

    operands: Sequence[ir.Value]
    axis: int
    last: ir.Node


class MergeStacks(NodePass[_Stack]):
    """A stack that only a Reshape reads needs no axis of its own:

    1. `Reshape(Concat(Unsqueeze(a, k), Unsqueeze(b, k), axis = k))` is `Reshape(Concat(a, b, axis = k))`, since the elements stand
       in the same order, where `a` and `b` have an axis k, of known size, and the Reshape keeps none of the axes from k on.
    2. The Reshape goes where it only flattened the stack, and is an Unsqueeze where it puts in axes of size 1 besides.
    """

    phase = Phase.SIMPLIFY
    operators = frozenset({"Concat"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Stack | None:
        dims, reader = dims_of(node.outputs[0]), only_reader(node.outputs[0])
        if dims is None or reader is None or reader.graph is not node.graph:
            return None
        axis = axis_of(node, len(dims))
        if axis + 1 == len(dims) or not isinstance(dims[axis + 1], int) or not _forgets(reader, axis):
            return None
        operands = [without_axis(value, axis) for value in node.inputs]
        found = [value for value in operands if value is not None]
        return _Stack(found, axis, reader) if len(found) == len(operands) else None

    def rewrite(self, node: ir.Node, match: _Stack, editor: GraphEditor) -> None:
        dims = dims_of(match.operands[0]) or ()
        sizes = [(dims_of(value) or ())[match.axis] for value in match.operands]
        total = sum(size for size in sizes if isinstance(size, int))
        whole = (*dims[: match.axis], total, *dims[match.axis + 1 :])
        joined = editor.before(node).op.Concat(*match.operands, axis=match.axis, dims=labelled(whole))
        view = view_of(whole, dims_of(match.last.outputs[0]) or ())
        if same_dims(whole, dims_of(match.last.outputs[0])):
            editor.replace(match.last, joined)
        elif view is not None and view[0] == "Unsqueeze":
            become_view(editor, match.last, joined, view)
        else:
            match.last.replace_input_with(0, joined)
            editor.modified = True


def _forgets(node: ir.Node, axis: int) -> bool:
    """Whether a node is a Reshape that copies no dimension from `axis` on."""
    if node.domain or node.op_type != "Reshape":
        return False
    target = known(node.inputs[1])
    allows_zero = node.attributes.get_int("allowzero", 0) == 1
    return target is not None and (allows_zero or bool(target[axis:].all()))
