"""`AttentionLayout`: `Attention` takes keys and values with their heads first, as caches hold them."""

from __future__ import annotations

__all__ = ["AttentionLayout"]

import dataclasses

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, permutation_of

_HEADS = (0, 2, 1, 3)  # [B, S, K, H] as [B, K, S, H], and back


@dataclasses.dataclass(frozen=True)
class _HeadsFirst:
    """The operands of a 3-D attention with their heads first.

    Attributes:
      key: [B, K, S, H].
      value: [B, K, S, V].
      query: [B, N, T, H]; None where it has to be transposed.
    """

    key: ir.Value
    value: ir.Value
    query: ir.Value | None


class AttentionLayout(NodePass[_HeadsFirst]):
    """An `Attention` of the 3-D form whose keys and values, [B, S, K · H], are transposes of [B, K, S, H]:

    1. It takes these as they are, in its 4-D form; query and result, usually far shorter, are transposed instead.
    2. A query that is a transpose of [B, N, T, H] is taken as it is too.
    """

    phase = Phase.LAY_OUT
    after = (FoldTransposes,)
    forms = "Attention with its heads first"
    operators = frozenset({"Attention"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _HeadsFirst | Declined | None:
        if not _is_merged(node):
            return None
        heads = node.attributes["kv_num_heads"].as_int()
        key, value = (_heads_first(x, heads) for x in node.inputs[1:3])
        if key is None and value is None:
            return None
        if key is None or value is None:
            first, last = ("values", "keys") if key is None else ("keys", "values")
            return Declined(f"the {first} have their heads first, and the {last} have not", node)
        if len(node.outputs) != 1 or any(node.inputs[4:]):
            return Declined("it has a past or further results", node)
        return _HeadsFirst(key, value, _heads_first(node.inputs[0], node.attributes["q_num_heads"].as_int()))

    def rewrite(self, node: ir.Node, match: _HeadsFirst, editor: GraphEditor) -> None:
        batch, length, width = labelled(dims_of(node.outputs[0]) or ())
        heads, features = node.attributes["q_num_heads"].as_int(), (dims_of(match.key) or ())[3]
        assert isinstance(features, int) and isinstance(width, int)
        builder, query = editor.before(node), match.query
        if query is None:
            split = builder.ints([0, 0, heads, features])
            query = builder.op.Reshape(node.inputs[0], split, dims=(batch, length, heads, features))
            query = builder.op.Transpose(query, perm=_HEADS)
        operands, dims = [query, match.key, match.value, *node.inputs[3:]], (batch, heads, length, width // heads)
        result = builder.variant(node, operands, dims=dims, without=("q_num_heads", "kv_num_heads"))
        result = builder.op.Transpose(result, perm=_HEADS)
        editor.put(node, "Reshape", [result, builder.ints([0, 0, width])])


def _is_merged(node: ir.Node) -> bool:
    """Whether the node has the 3-D form."""
    dims = dims_of(node.outputs[0]) or ()
    return len(dims) == 3 and isinstance(dims[2], int) and "q_num_heads" in node.attributes


def _heads_first(merged: ir.Value | None, count: int) -> ir.Value | None:
    """x [B, K, S, H] of so many heads where `merged` [B, S, K · H] is a transpose of it, reshaped."""
    reshape = operation(merged, "Reshape")
    transpose = None if reshape is None else operation(reshape.inputs[0], "Transpose")
    if transpose is None or permutation_of(transpose) != _HEADS:
        return None
    batch, length, heads, features = dims_of(transpose.outputs[0]) or (None,) * 4
    if batch is None or length is None or heads != count or not isinstance(features, int):
        return None
    return transpose.inputs[0] if same_dims(dims_of(merged), (batch, length, count * features)) else None
