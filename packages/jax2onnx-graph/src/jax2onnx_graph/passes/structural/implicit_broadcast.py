"""Let operators broadcast by themselves instead of through Expand."""

from __future__ import annotations

__all__ = ["ImplicitBroadcast"]

import functools

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import Elementwise, facts_of
from jax2onnx_graph.facts.shapes import broadcast_dims
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation
from jax2onnx_graph.weights.absent import computed


class ImplicitBroadcast(GraphPass):
    """Drop Expand where the operator that reads it broadcasts and its result keeps its shape.

    1. `Add(Expand(x), y)` is `Add(x, y)`, likewise for each operator that broadcasts all its operands
       and each of these, where the result has the same labelled dimensions without the Expand.
    2. The same for a Reshape or Unsqueeze that only adds leading axes of size 1, where no reader needs it: formulas that
       read it twice stay what they are.
    3. The same for `MatMul` and the batch dimensions of its operands.
    4. `Expand(Expand(x))` is one Expand, where `x` broadcasts to the outer shape.
    5. Weights lose leading axes of size 1 likewise, so that runtimes can join `MatMul` with the `Add` of a bias [C].
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        needed: dict[ir.Value, bool] = {}  # whether a view has a reader that needs it
        for node in editor.nodes():
            if node.domain or len(node.outputs) != 1:
                continue
            if node.op_type == "Expand":
                _merge_expand(editor, node)
            elif _matrix_axes(node) is not None:
                _drop_expands(editor, node, needed)
            if facts_of(node.op_type).elementwise is Elementwise.BROADCAST:
                _strip_weights(editor, node)


def _matrix_axes(node: ir.Node) -> int | None:
    """How many of the last axes of its operands an operator does not broadcast; None for one that does not broadcast at all."""
    if node.domain:
        return None
    if node.op_type == "MatMul":
        return 2
    return 0 if facts_of(node.op_type).elementwise is Elementwise.BROADCAST else None


def _drop_expands(editor: GraphEditor, node: ir.Node, needed: dict[ir.Value, bool]) -> None:
    for index, value in enumerate(node.inputs):
        while value is not None:
            source = _before_broadcast(value)
            if source is None or not _keeps_shape(node, index, source) or _is_needed(value, source, needed):
                break
            node.replace_input_with(index, source)
            editor.modified = True
            value = source


def _is_needed(value: ir.Value, source: ir.Value, needed: dict[ir.Value, bool]) -> bool:
    """Whether `value`, a view of `source`, has a reader that needs it."""
    if value not in needed:
        uses = [use for use in value.uses() if not _is_view(use.node) and not _is_dead(use.node)]
        readers = [use.node for use in uses]
        needed[value] = len(set(readers)) < len(readers) or not all(_keeps_shape(*use, source) for use in uses)
    return needed[value] and operation(value, "Expand") is None


def _is_dead(node: ir.Node) -> bool:
    return not any(output.uses() or output.is_graph_output() for output in node.outputs)


def _is_view(node: ir.Node) -> bool:
    """Whether a node takes a view of a value as well as the value."""
    return not node.domain and facts_of(node.op_type).is_view


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


def _keeps_shape(node: ir.Node, index: int, source: ir.Value) -> bool:
    """Whether the result of a node has the same dimensions with `source` in the place of an operand."""
    matrix_axes, dims = _matrix_axes(node), dims_of(node.outputs[0])
    if matrix_axes is None or dims is None:
        return False
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
