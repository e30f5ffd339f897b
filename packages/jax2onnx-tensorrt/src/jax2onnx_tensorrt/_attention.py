"""Attention in the form that TensorRT takes: heads are an axis of all operands, masks have all four axes."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dims import Dim
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["AttentionPass"]

_HEADS_FIRST = [0, 2, 1, 3]


class AttentionPass(GraphPass):
    """Bring every Attention to the form of the parser's table.

    1. Operands [B, T, heads · H] become [B, heads, T, H], and the result comes back.
    2. A mask of fewer axes gets axes of size 1 in front.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type == "Attention" and not node.domain:
                _lengthen_mask(editor, node)
                if len(dims_of(node.inputs[0]) or ()) == 3:
                    _split_heads(editor, node)


def _lengthen_mask(editor: GraphEditor, node: ir.Node) -> None:
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    dims = None if mask is None else dims_of(mask)
    if mask is None or dims is None or len(dims) == 4:
        return
    b = editor.before(node)
    missing = 4 - len(dims)
    long = b.op("Unsqueeze", mask, b.ints(range(missing)), dims=(*[1] * missing, *(b.dims(mask) or ())))
    node.replace_input_with(3, long)
    editor.modified = True


def _split_heads(editor: GraphEditor, node: ir.Node) -> None:
    b = editor.before(node)
    heads = [node.attributes[name].as_int() for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    operands = [_split(b, value, count) for value, count in zip(node.inputs[:3], heads, strict=True)]
    attributes = {k: a.value for k, a in node.attributes.items() if k not in ("q_num_heads", "kv_num_heads")}
    result = node.outputs[0]
    batch, length, features = _dims(b, result)
    each = _each(features, heads[0])
    attended = b.op("Attention", *operands, *node.inputs[3:], dims=(batch, heads[0], length, each), **attributes)
    turned = b.op("Transpose", attended, perm=_HEADS_FIRST, dims=(batch, length, heads[0], each))
    editor.put(node, "Reshape", [turned, b.ints([0, 0, -1])])


def _split(b: GraphBuilder, value: ir.Value | None, heads: int) -> ir.Value:
    assert value is not None
    batch, length, features = _dims(b, value)
    each = _each(features, heads)
    split = b.op("Reshape", value, b.ints([0, 0, heads, -1]), dims=(batch, length, heads, each))
    return b.op("Transpose", split, perm=_HEADS_FIRST, dims=(batch, heads, length, each))


def _each(features: Dim, heads: int) -> Dim:
    assert isinstance(features, int), "Attention of three axes is made where the number of features is known"
    return features // heads


def _dims(b: GraphBuilder, value: ir.Value) -> tuple[Dim, ...]:
    dims = b.dims(value)
    assert dims is not None, "the shape is known where the number of axes is"
    return tuple(dims)
