"""`MergeReductions`: reductions are merged with views of their results, with reductions of them, and with squares."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.axes import reduced_axes
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dims
from jax2onnx_graph.passes.structural.concat_views import ConcatViews
from jax2onnx_graph.passes.structural.sink_selections import SinkSelections
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_read_once, operation

__all__ = ["MergeReductions"]

_VIEWS = frozenset({"Unsqueeze", "Reshape"})
_WIDE_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})
_REPEATABLE = frozenset({"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"})


@dataclasses.dataclass(frozen=True)
class _Kept:
    """A view that puts back the axes which a reduction removed.

    Attributes:
      reduction: the reduction.
      dims: the dimensions of the view.
    """

    reduction: ir.Node
    dims: Sequence[LabelledDim]


@dataclasses.dataclass(frozen=True)
class _Nested:
    """A reduction of a reduction.

    Attributes:
      operand: the operand of the inner one.
      axes: the axes that both reduce, counted in the operand.
    """

    operand: ir.Value
    axes: Sequence[int]


@dataclasses.dataclass(frozen=True)
class _Squares:
    """A sum of all squares; `operand` is squared."""

    operand: ir.Value


class MergeReductions(NodePass[_Kept | _Nested | _Squares]):
    """Merge a reduction with the view or the reduction behind it or the squares before it, where nothing else reads what is between.

    1. With an Unsqueeze or Reshape that puts the axes back that it removed, it becomes a reduction that keeps them (`keepdims`).
    2. A sum of sums is one sum over the axes of both, where both keep their axes or both do not; likewise maxima, minima and
       products.
    3. The sum of all elements of `x * x` is ReduceSumSquare, which runtimes compute several times faster; along some axes they do not.
    """

    phase = Phase.FINISH
    after = (SinkSelections, ConcatViews)
    operators = _VIEWS | _REPEATABLE

    def match(self, node: ir.Node, editor: GraphEditor) -> _Kept | _Nested | _Squares | None:
        if not node.inputs or not is_read_once(node.inputs[0]):
            return None
        return _kept(node) if node.op_type in _VIEWS else _nested(node) or _squares(node, editor)

    def rewrite(self, node: ir.Node, match: _Kept | _Nested | _Squares, editor: GraphEditor) -> None:
        if isinstance(match, _Squares):
            editor.put(node, "ReduceSumSquare", [match.operand], {"keepdims": int(_keeps_axes(node))})
            return
        if isinstance(match, _Kept):
            reduction = match.reduction
            builder, dims = editor.before(reduction), labelled(match.dims)
            editor.replace(node, builder.variant(reduction, reduction.inputs, dims=dims, without=("keepdims",)))
            return
        attributes = {name: value for name, value in attribute_values(node).items() if name != "noop_with_empty_axes"}
        editor.put(node, node.op_type, [match.operand, editor.ints(match.axes)], attributes)


def _kept(view: ir.Node) -> _Kept | None:
    """Rule 1."""
    value = view.inputs[0]
    node = None if value is None else value.producer()
    if node is None or node.domain or node.graph is not view.graph or _keeps_axes(node):
        return None
    axes, dims = reduced_axes(node), dims_of(node.inputs[0]) if node.inputs else None
    if axes is None or dims is None:
        return None
    kept = [1 if axis in axes else dim for axis, dim in enumerate(dims)]
    return _Kept(node, kept) if same_dims(kept, dims_of(view.outputs[0])) else None


def _nested(node: ir.Node) -> _Nested | None:
    """Rule 2."""
    inner = operation(node.inputs[0], node.op_type)
    if inner is None or inner.graph is not node.graph or _keeps_axes(inner) != _keeps_axes(node):
        return None
    first, second, operand = reduced_axes(inner), reduced_axes(node), inner.inputs[0]
    dims = dims_of(operand)
    if first is None or second is None or operand is None or dims is None:
        return None
    left = list(range(len(dims))) if _keeps_axes(inner) else [axis for axis in range(len(dims)) if axis not in first]
    return _Nested(operand, sorted({*first, *(left[axis] for axis in second)}))


def _squares(node: ir.Node, editor: GraphEditor) -> _Squares | None:
    """Rule 3."""
    square, dims = operation(node.inputs[0], "Mul"), dims_of(node.inputs[0])
    if node.op_type != "ReduceSum" or square is None or square.graph is not node.graph or dims is None:
        return None
    left, right = square.inputs
    if (
        left is None
        or left is not right
        or left.dtype not in _WIDE_FLOATS
        or len(reduced_axes(node) or ()) != len(dims)
    ):
        return None
    return _Squares(left) if editor.supports("ReduceSumSquare", left) else None


def _keeps_axes(node: ir.Node) -> bool:
    return node.attributes.get_int("keepdims", 1) == 1
