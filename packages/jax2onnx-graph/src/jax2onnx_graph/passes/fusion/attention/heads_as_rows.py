"""`Attention` of one query with fewer key heads than query heads, as when text is generated."""

from __future__ import annotations

import dataclasses

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.passes.fusion.attention.attention_layout import AttentionLayout
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["HeadsAsRows"]

_SWAPPED = (0, 2, 1, 3)  # [B, K, G, H] as [B, G, K, H], and back


class HeadsAsRows(GraphPass):
    """An `Attention` of one query whose N = K · G query heads share K key heads, as many each as `Threshold.SHARING_HEADS` says:

    1. The G query heads of a key head become G queries of it, so that a kernel reads each key once, where the target
       prefers this. Without a causal mask, since the one query sees all keys that the mask lets it see.
    2. The mask is repeated for these queries; where it differs by head, its heads become rows likewise.
    """

    after = (AttentionLayout,)
    produces = frozenset({"Attention"})

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        if editor.prefers(Form.HEADS, Form.HEADS_AS_ROWS) is Form.HEADS:
            return
        least = editor.threshold(Threshold.SHARING_HEADS)
        masks: dict[tuple[ir.Value, int], ir.Value | None] = {}
        for node in list(editor.nodes()):
            if node.op_type == "Attention" and not node.domain and _is_plain(node):
                heads = _heads(node)
                if heads is not None and heads.group >= least:
                    _rewrite(editor, node, heads, masks)


@dataclasses.dataclass(frozen=True)
class _Heads:
    """K key heads, G query heads for each of them, and the features of a query and of a result."""

    keys: int
    group: int
    features: int
    result: int

    @property
    def queries(self) -> int:
        return self.keys * self.group


def _is_plain(node: ir.Node) -> bool:
    """Whether the node has one result, no past, and no causal mask."""
    return len(node.outputs) == 1 and not any(node.inputs[4:]) and not node.attributes.get_int("is_causal", 0)


def _heads(node: ir.Node) -> _Heads | None:
    """The heads of an `Attention` of one query whose query heads share key heads."""
    query, key, result = (dims_of(value) or () for value in (*node.inputs[:2], node.outputs[0]))
    if len(query) == 4 and len(key) == 4 and len(result) == 4:
        (_, heads, length, features), keys, last = query, key[1], result[3]
    elif len(query) == 3 and len(key) == 3 and len(result) == 3:
        heads, keys = node.attributes.get_int("q_num_heads", 1), node.attributes.get_int("kv_num_heads", 1)
        if not (isinstance(query[2], int) and isinstance(result[2], int)):
            return None
        length, features, last = query[1], query[2] // heads, result[2] // heads
    else:
        return None
    sizes = [size for size in (heads, keys, features, last) if isinstance(size, int)]
    if length != 1 or len(sizes) < 4 or 0 in sizes:
        return None
    return _Heads(sizes[1], sizes[0] // sizes[1], *sizes[2:])


def _rewrite(
    editor: GraphEditor, node: ir.Node, heads: _Heads, masks: dict[tuple[ir.Value, int], ir.Value | None]
) -> None:
    query, mask = node.inputs[0], node.inputs[3] if len(node.inputs) > 3 else None
    assert query is not None
    if mask is not None:
        if (mask, heads.group) not in masks:
            masks[mask, heads.group] = _mask(editor.after(mask, node), mask, heads)
        mask = masks[mask, heads.group]
        if mask is None:
            return
    builder, is_merged = editor.before(node), len(dims_of(query) or ()) == 3
    batch = labelled(dims_of(query) or ())[0]
    rows = builder.op.Reshape(
        query, builder.ints([0, heads.keys, heads.group, heads.features]),
        dims=(batch, heads.keys, heads.group, heads.features),
    )  # fmt: skip
    attributes = attribute_values(node)
    dims: Dims = (batch, heads.keys, heads.group, heads.result)
    if is_merged:
        width = heads.keys * heads.features
        rows = builder.op.Transpose(rows, perm=_SWAPPED)
        rows = builder.op.Reshape(rows, builder.ints([0, heads.group, width]), dims=(batch, heads.group, width))
        attributes["q_num_heads"], dims = heads.keys, (batch, heads.group, heads.keys * heads.result)
    (result,) = builder.emit("Attention", [rows, *node.inputs[1:3], mask], "", 1, None, dims, attributes)
    if is_merged:
        split = (heads.group, heads.keys, heads.result)
        result = builder.op.Reshape(result, builder.ints([0, *split]), dims=(batch, *split))
        result = builder.op.Transpose(result, perm=_SWAPPED)
    whole = (1, heads.queries * heads.result) if is_merged else (heads.queries, 1, heads.result)
    editor.put(node, "Reshape", [result, builder.ints([0, *whole])])


def _mask(builder: InsertionPoint, mask: ir.Value, heads: _Heads) -> ir.Value | None:
    """A mask […, 1, S] or […, N, 1, S] for G rows of K heads; None for another."""
    dims = labelled(dims_of(mask) or ())
    if len(dims) < 2 or dims[-2] != 1:
        return None
    before, keys = dims[:-3], dims[-1]
    if len(dims) < 3 or dims[-3] == 1:
        return builder.op.Expand(mask, builder.ints([heads.group, 1]), dims=(*dims[:-2], heads.group, keys))
    if dims[-3] != heads.queries or not isinstance(keys, int):
        return None
    rows = (heads.keys, heads.group, keys)
    if not before:
        return builder.op.Reshape(mask, builder.ints(rows), dims=rows)
    return builder.op.Reshape(mask, builder.ints([0, *rows]), dims=(*before, *rows))
