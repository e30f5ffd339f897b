"""Let operators broadcast by themselves instead of through Expand."""

from __future__ import annotations

__all__ = ["ImplicitBroadcast"]

import functools

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import Elementwise, facts_of
from jax2onnx_graph.facts.shapes import broadcast_dims
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.weights.absent import computed


class ImplicitBroadcast(GraphPass):
    """Drop Expand where the operator that reads it broadcasts and its result keeps its shape.

    1. `Add(Expand(x), y)` is `Add(x, y)`, likewise for each operator that broadcasts all its operands
       and each of these, where the result has the same labelled dimensions without the Expand.
    2. The same for a Reshape or Unsqueeze that only adds leading axes of size 1.
    3. The same for `MatMul` and the batch dimensions of its operands.
    4. `Expand(Expand(x))` is one Expand, where `x` broadcasts to the outer shape.
    5. Weights lose leading axes of size 1 likewise, so that runtimes can join `MatMul` with the `Add` of a bias [C].
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or len(node.outputs) != 1:
                continue
            if facts_of(node.op_type).elementwise is Elementwise.BROADCAST:
                _drop_expands(editor, node, matrix_axes=0)
                _strip_weights(editor, node)
            elif node.op_type == "MatMul":
                _drop_expands(editor, node, matrix_axes=2)
            elif node.op_type == "Expand":
                _merge_expand(editor, node)


def _drop_expands(editor: GraphEditor, node: ir.Node, *, matrix_axes: int) -> None:
    dims = dims_of(node.outputs[0])
    for index, value in enumerate(node.inputs):
        while value is not None and dims is not None:
            source = _before_broadcast(value)
            if source is None or not _keeps_shape(node, index, source, dims, matrix_axes):
                break
            node.replace_input_with(index, source)
            editor.modified = True
            value = source


def _before_broadcast(value: ir.Value) -> ir.Value | None:
    """The operand of the Expand, or of the view adding leading axes, that makes `value`."""
    producer = value.producer()
    if producer is None or producer.domain:
        return None
    source = producer.inputs[0] if producer.inputs else None
    if producer.op_type == "Expand":
        return source
    if producer.op_type not in ("Reshape", "Unsqueeze"):
        return None
    small, large = dims_of(source), dims_of(value)
    if small is None or large is None or len(small) >= len(large):
        return None
    added = len(large) - len(small)
    leading = all(dim == 1 for dim in large[:added]) and same_dims(small, large[added:])
    return source if leading else None


def _keeps_shape(node: ir.Node, index: int, source: ir.Value, dims: tuple[LabelledDim, ...], matrix_axes: int) -> bool:
    shapes = [dims_of(source if position == index else value) for position, value in enumerate(node.inputs)]
    if any(shape is None or len(shape) < matrix_axes for shape in shapes):
        return False
    known_shapes = [shape for shape in shapes if shape is not None]
    if matrix_axes:
        before = dims_of(node.inputs[index])
        if before is None or not same_dims(before[-matrix_axes:], known_shapes[index][-matrix_axes:]):
            return False
        known_shapes = [shape[:-matrix_axes] for shape in known_shapes]
        dims = dims[:-matrix_axes]
    return same_dims(broadcast_dims(known_shapes), dims)


def _strip_weights(editor: GraphEditor, node: ir.Node) -> None:
    """Drop the leading axes of size 1 of the node's weights."""
    dims = dims_of(node.outputs[0])
    for index, value in enumerate(node.inputs):
        tensor = value.const_value if value is not None and value.producer() is None else None
        if value is None or tensor is None or tensor.size == 1 or tensor.shape[0] != 1:
            continue
        full = tensor.shape.numpy()
        shape = full[next(axis for axis, dim in enumerate(full) if dim != 1) :]
        shapes = [shape if position == index else dims_of(v) for position, v in enumerate(node.inputs)]
        known_shapes = [shape for shape in shapes if shape is not None]
        if len(known_shapes) < len(shapes) or not same_dims(broadcast_dims(known_shapes), dims):
            continue
        stripped = computed(functools.partial(np.reshape, shape=shape), [tensor], tensor.dtype, shape)
        node.replace_input_with(index, editor.derived(value, stripped, "squeeze"))
        editor.modified = True


def _merge_expand(editor: GraphEditor, node: ir.Node) -> None:
    source = node.inputs[0]
    producer = source.producer() if source is not None else None
    if producer is None or producer.domain or producer.op_type != "Expand":
        return
    inner, dims = dims_of(producer.inputs[0]), dims_of(node.outputs[0])
    if inner is not None and dims is not None and same_dims(broadcast_dims([inner, dims]), dims):
        node.replace_input_with(0, producer.inputs[0])
        editor.modified = True
