"""`HeadsAsRows`: the query heads of one query that share a key head become queries of that, as when text is generated."""

from __future__ import annotations

import dataclasses

from jax2onnx_graph import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.values import dims_of, operand
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.passes.structural.attention_layout import AttentionLayout
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase

__all__ = ["HeadsAsRows"]

_SWAPPED = (0, 2, 1, 3)  # [B, K, G, H] as [B, G, K, H], and back


@dataclasses.dataclass(frozen=True)
class _Heads:
    """The heads of an attention of one query.

    Attributes:
      keys: K, the key heads.
      group: G, the query heads of each.
      features: the features of a query head.
      result: the features of a head of the result.
      merged: whether the attention has the 3-D form.
    """

    keys: int
    group: int
    features: int
    result: int
    merged: bool

    @property
    def queries(self) -> int:
        """N, all query heads."""
        return self.keys * self.group


class HeadsAsRows(NodePass[_Heads]):
    """An `Attention` of one query whose N = K · G query heads share K key heads, as many each as `Threshold.SHARING_HEADS` says:

    1. The G query heads of a key head become G queries of it, so that a kernel reads each key once, where the target
       prefers this. Without a causal mask, since the one query sees all keys that the mask lets it see.
    2. The mask is repeated for these queries; where it differs by head, its heads become rows likewise.
    """

    phase = Phase.LAY_OUT
    after = (AttentionLayout,)
    produces = frozenset({"Attention"})
    forms = "Attention with query heads as rows"
    operators = frozenset({"Attention"})

    def applies(self, opset: int) -> bool:
        return self.target.prefers(Form.HEADS, Form.HEADS_AS_ROWS) is Form.HEADS_AS_ROWS and super().applies(opset)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        self._masks: dict[tuple[ir.Value, int], ir.Value] = {}
        super().rewrite_graph(editor)

    def match(self, node: ir.Node, editor: GraphEditor) -> _Heads | Declined | None:
        heads = _heads(node)
        if heads is None or heads.group == 1:
            return None
        least = editor.threshold(Threshold.SHARING_HEADS)
        if heads.group < least:
            return Declined(
                f"only {heads.group} query heads share a key head, and {least} are needed to gain time", node
            )
        if node.attributes.get_int("is_causal", 0):
            return Declined("it has a causal mask", node)
        if len(node.outputs) != 1 or any(node.inputs[4:]):
            return Declined("it has a past or further results", node)
        mask = _mask_of(node)
        if mask is not None and not _can_be_rows(mask, heads):
            return Declined(
                "the mask has other heads than the queries, or differs by head and has a symbolic length", node
            )
        return heads

    def rewrite(self, node: ir.Node, match: _Heads, editor: GraphEditor) -> None:
        query, mask, heads = node.inputs[0], _mask_of(node), match
        assert query is not None
        if mask is not None:
            key = (mask, heads.group)
            if key not in self._masks:
                self._masks[key] = _rows_of_mask(editor.after(mask, node), mask, heads)
            mask = self._masks[key]
        builder, batch = editor.before(node), labelled(dims_of(query) or ())[0]
        attributes = attribute_values(node)
        dims: Dims = (batch, heads.keys, heads.group, heads.result)
        if heads.merged:
            attributes["q_num_heads"], dims = heads.keys, (batch, heads.group, heads.keys * heads.result)
        operands = [_rows_of_query(builder, query, heads), *node.inputs[1:3], mask]
        (result,) = builder.emit("Attention", operands, "", 1, None, dims, attributes)
        if heads.merged:
            split = (heads.group, heads.keys, heads.result)
            result = builder.op.Reshape(result, builder.ints([0, *split]), dims=(batch, *split))
            result = builder.op.Transpose(result, perm=_SWAPPED)
        whole = (1, heads.queries * heads.result) if heads.merged else (heads.queries, 1, heads.result)
        editor.put(node, "Reshape", [result, builder.ints([0, *whole])])


def _mask_of(node: ir.Node) -> ir.Value | None:
    return operand(node, 3)


def _heads(node: ir.Node) -> _Heads | None:
    """The heads of an `Attention` of one query; None for others, and where their numbers are not known."""
    query, key, result = (dims_of(value) or () for value in (*node.inputs[:2], node.outputs[0]))
    if len(query) == len(key) == len(result) == 4:
        (_, heads, length, features), keys, last = query, key[1], result[3]
    elif len(query) == len(key) == len(result) == 3:
        heads, keys = node.attributes.get_int("q_num_heads", 1), node.attributes.get_int("kv_num_heads", 1)
        if not (isinstance(query[2], int) and isinstance(result[2], int)):
            return None
        length, features, last = query[1], query[2] // heads, result[2] // heads
    else:
        return None
    sizes = [size for size in (heads, keys, features, last) if isinstance(size, int)]
    if length != 1 or len(sizes) < 4 or 0 in sizes:
        return None
    return _Heads(sizes[1], sizes[0] // sizes[1], sizes[2], sizes[3], merged=len(query) == 3)


def _rows_of_query(builder: InsertionPoint, query: ir.Value, heads: _Heads) -> ir.Value:
    """The one query as G queries with K heads."""
    batch, rows = labelled(dims_of(query) or ())[0], (heads.keys, heads.group, heads.features)
    value = builder.op.Reshape(query, builder.ints([0, *rows]), dims=(batch, *rows))
    if not heads.merged:
        return value
    width = heads.keys * heads.features
    value = builder.op.Transpose(value, perm=_SWAPPED)
    return builder.op.Reshape(value, builder.ints([0, heads.group, width]), dims=(batch, heads.group, width))


def _can_be_rows(mask: ir.Value, heads: _Heads) -> bool:
    """Whether the mask is […, 1, S], or [N, 1, S] or [B, N, 1, S] with a known S."""
    dims = dims_of(mask) or ()
    if len(dims) < 2 or dims[-2] != 1:
        return False
    return len(dims) < 3 or dims[-3] == 1 or (dims[-3] == heads.queries and isinstance(dims[-1], int))


def _rows_of_mask(builder: InsertionPoint, mask: ir.Value, heads: _Heads) -> ir.Value:
    """A mask […, 1, S] or […, N, 1, S] for G rows of K heads."""
    dims = labelled(dims_of(mask) or ())
    before, keys = dims[:-3], dims[-1]
    if len(dims) < 3 or dims[-3] == 1:
        return builder.op.Expand(mask, builder.ints([heads.group, 1]), dims=(*dims[:-2], heads.group, keys))
    assert isinstance(keys, int), "a mask that differs by head was matched only where its length is known"
    rows = (heads.keys, heads.group, keys)
    if not before:
        return builder.op.Reshape(mask, builder.ints(rows), dims=rows)
    return builder.op.Reshape(mask, builder.ints([0, *rows]), dims=(*before, *rows))
