"""Merge reductions with views of their results, and with reductions of them."""

from __future__ import annotations

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.axes import axis_of, named_axes
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.passes.structural.merge_reshapes import MergeReshapes
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_read_once, operation

__all__ = ["MergeReductions"]

_VIEWS = ("Unsqueeze", "Reshape")
_REPEATABLE = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


class MergeReductions(GraphPass):
    """Where nothing else reads the result of a reduction:

    1. With an Unsqueeze or Reshape that puts the axes back that it removed, it becomes a reduction that keeps them (`keepdims`).
    2. A sum of sums is one sum over the axes of both, where both keep their axes or both do not; likewise maxima, minima and
       products.
    """

    after = (MergeReshapes,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or not node.inputs or not is_read_once(node.inputs[0]):
                continue
            if node.op_type in _VIEWS:
                _keep_axes(editor, node)
            elif node.op_type in _REPEATABLE:
                _reduce_at_once(editor, node)


def _keep_axes(editor: GraphEditor, view: ir.Node) -> None:
    """Rule 1."""
    reduced = view.inputs[0]
    node = None if reduced is None else reduced.producer()
    if reduced is None or node is None or node.domain or node.graph is not view.graph or _keeps_axes(node):
        return
    axes, dims = _axes(node), dims_of(node.inputs[0])
    if axes is None or dims is None:
        return
    kept = [1 if axis in axes else dim for axis, dim in enumerate(dims)]
    if not same_dims(kept, dims_of(view.outputs[0])):
        return
    builder = editor.before(node)
    editor.replace(view, builder.variant(node, node.inputs, dims=labelled(kept), without=("keepdims",)))


def _reduce_at_once(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 2."""
    inner = operation(node.inputs[0], node.op_type)
    if inner is None or inner.graph is not node.graph or _keeps_axes(inner) != _keeps_axes(node):
        return
    first, second, dims = _axes(inner), _axes(node), dims_of(inner.inputs[0])
    if first is None or second is None or dims is None:
        return
    left = list(range(len(dims))) if _keeps_axes(inner) else [axis for axis in range(len(dims)) if axis not in first]
    axes = sorted({*first, *(left[axis] for axis in second)})
    attributes = {name: value for name, value in attribute_values(node).items() if name != "noop_with_empty_axes"}
    editor.put(node, node.op_type, [inner.inputs[0], editor.ints(axes)], attributes)


def _keeps_axes(node: ir.Node) -> bool:
    return node.attributes.get_int("keepdims", 1) == 1


def _axes(node: ir.Node) -> list[int] | None:
    """The axes that a node reduces, as far as they are known; None for other nodes."""
    facts, dims = facts_of(node.op_type), dims_of(node.inputs[0]) if node.inputs else None
    if not facts.reduces or dims is None or len(node.outputs) != 1:
        return None
    if facts.axis is not None:
        return [axis_of(node, len(dims))]
    index = facts.axes_input
    if index is not None and (index >= len(node.inputs) or node.inputs[index] is None):
        return None if node.attributes.get_int("noop_with_empty_axes", 0) == 1 else [*range(len(dims))]
    found = named_axes(node, len(dims))
    return found or None
