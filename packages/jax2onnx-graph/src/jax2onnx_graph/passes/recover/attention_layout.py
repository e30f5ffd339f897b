"""`Attention` on keys and values that have their heads first already, as caches do."""

from __future__ import annotations

__all__ = ["AttentionLayout"]

from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import VersionedPass, operation, rewrite_as

_HEADS = (0, 2, 1, 3)


class AttentionLayout(VersionedPass):
    """From opset 23, `Attention` whose keys and values, [B, S, K · H], are transposes of [B, K, S, H]:

    1. It takes them as they are, in its 4-D form; query and result, usually far shorter, are transposed instead.
    2. A query that is a transpose of [B, N, T, H] is taken as it is too.
    """

    lowest_opset = 23

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.op_type == "Attention" and not node.domain and _is_merged(node):
                key, value = (_heads_first(x) for x in node.inputs[1:3])
                if key is not None and value is not None:
                    _emit(editor, node, key, value)


def _is_merged(node: ir.Node) -> bool:
    """Whether the node has the 3-D form, without a past or further results."""
    dims = dims_of(node.outputs[0]) or ()
    plain = len(node.outputs) == 1 and not any(node.inputs[4:])
    return plain and len(dims) == 3 and isinstance(dims[2], int) and "q_num_heads" in node.attributes


def _heads_first(merged: ir.Value | None) -> ir.Value | None:
    """x [B, K, S, H] where `merged` is [B, S, K · H]."""
    reshape = operation(merged, "Reshape")
    transpose = None if reshape is None else operation(reshape.inputs[0], "Transpose")
    if transpose is None or tuple(transpose.attributes.get_ints("perm", ())) != _HEADS:
        return None
    tokens, whole = dims_of(reshape.inputs[0]) or (), dims_of(merged) or ()  # type: ignore[union-attr]
    if len(whole) != 3 or not all(isinstance(dim, int) for dim in tokens[2:]):
        return None
    return transpose.inputs[0] if same_dims(whole, (*tokens[:2], int(tokens[2]) * int(tokens[3]))) else None  # type: ignore[arg-type]


def _emit(editor: GraphEditor, node: ir.Node, key: ir.Value, value: ir.Value) -> None:
    batch, length, width = dims_of(node.outputs[0]) or ()
    heads, features = node.attributes["q_num_heads"].as_int(), (dims_of(key) or ())[3]
    assert isinstance(features, int) and isinstance(width, int)
    query = _heads_first(node.inputs[0])
    if query is None:
        tokens = (batch, length, heads, features)
        query = _insert(editor, node, "Reshape", [node.inputs[0], editor.ints([0, 0, heads, features])], tokens)
        query = _insert(editor, node, "Transpose", [query], (batch, heads, length, features), [_perm()])
    kept = [attribute for name, attribute in node.attributes.items() if not name.endswith("_num_heads")]
    dims = (batch, heads, length, width // heads)
    result = _insert(editor, node, "Attention", [query, key, value, *node.inputs[3:]], dims, kept)
    result = _insert(editor, node, "Transpose", [result], tuple(dims[axis] for axis in _HEADS), [_perm()])
    rewrite_as(editor, node, "Reshape", [result, editor.ints([0, 0, width])])


def _perm() -> ir.Attr:
    return ir.AttrInt64s("perm", _HEADS)


def _insert(
    editor: GraphEditor,
    before: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    dims: Sequence[LabelledDim],
    attributes: Sequence[ir.Attr] = (),
) -> ir.Value:
    name = f"{before.name}.{op_type}" if op_type == "Attention" else None
    node = ir.Node("", op_type, inputs, attributes, name=name)
    node.outputs[0].type, node.outputs[0].shape = before.outputs[0].type, ir.Shape(dims)
    editor.graph.insert_before(before, node)
    return node.outputs[0]
