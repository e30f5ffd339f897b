"""Operands with the fewest axes that TensorRT takes: two in space to pool over, two for the position of an extreme."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["AxesPass"]

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_POSITIONS = ("ArgMax", "ArgMin")


class AxesPass(GraphPass):
    """Add an axis of size 1 where TensorRT wants one more.

    1. Operands of pooling with one axis in space, [N, C, L], get a second one, over which windows of size 1 go.
    2. Vectors of which ArgMax or ArgMin gives a position become matrices of one row.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            axes = len(dims_of(node.inputs[0]) or ()) if node.inputs and not node.domain else 0
            if node.op_type in _POOLS and axes == 3:
                _widen(editor, node)
            elif node.op_type in _POSITIONS and axes == 1:
                _raise(editor, node)


def _raise(editor: GraphEditor, node: ir.Node) -> None:
    x, result = node.inputs[0], node.outputs[0]
    assert x is not None
    b = editor.before(node)
    row = b.op("Unsqueeze", x, b.ints([0]), dims=(1, *(b.dims(x) or ())))
    attributes = {**attribute_values(node), "axis": 1}
    (place,) = b.emit(node.op_type, [row], "", 1, None, (1, *(b.dims(result) or ())), attributes)
    editor.put(node, "Squeeze", [place, b.ints([0])])


def _widen(editor: GraphEditor, node: ir.Node) -> None:
    x, result = node.inputs[0], node.outputs[0]
    assert x is not None
    b = editor.before(node)
    attributes = attribute_values(node)
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.INTS:
            attributes[name] = _with_axis(name, attribute.as_ints())
    wide = b.op("Unsqueeze", x, b.ints([-1]), dims=_with_one(b, x))
    (pooled,) = b.emit(node.op_type, [wide], "", 1, None, _with_one(b, result), attributes)
    editor.put(node, "Squeeze", [pooled, b.ints([-1])])


def _with_one(b: GraphBuilder, value: ir.Value) -> Dims | None:
    dims = b.dims(value)
    return None if dims is None else (*dims, 1)


def _with_axis(name: str, values: Sequence[int]) -> list[int]:
    """The attribute for one axis more: a window of size 1 that goes on by 1, and is not padded."""
    return [values[0], 0, values[1], 0] if name == "pads" else [*values, 1]
