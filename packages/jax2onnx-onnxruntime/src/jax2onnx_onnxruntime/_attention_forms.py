"""`Attention` in the form whose kernel is fastest.

The kernel multiplies matrices with the scale as their factor. A product of one row takes a shorter way, almost twice as fast,
but only where the factor is 1 (`forms.FORMS` has the numbers).
"""

from __future__ import annotations

import re

import onnx_ir as ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["AttentionFormsPass"]


class AttentionFormsPass(GraphPass):
    """Let the query carry the scale where there may be one query, as when text is generated.

    1. `Attention(q, …)` becomes `Attention(q · scale, …)` with the scale 1, where q has one row, or a number of rows that is
       known at run time only and goes with more keys: the keys of a buffer, or as many as before and the new ones.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type == "Attention" and not node.domain and node.outputs[0].dtype == ir.DataType.FLOAT:
                _scale_query(editor, node)


def _scale_query(editor: GraphEditor, node: ir.Node) -> None:
    query, scale = node.inputs[0], _scale(node)
    if query is None or scale is None or scale == 1 or not _may_be_one_query(node):
        return
    builder = editor.before(node)
    node.replace_input_with(0, builder.op.Mul(query, builder.constant(scale, like=query)))
    node.attributes["scale"] = ir.AttrFloat32("scale", 1.0)


def _scale(node: ir.Node) -> float | None:
    """The factor of the logits; None where it is not known."""
    dims, heads = dims_of(node.inputs[0]) or (None,), node.attributes.get_int("q_num_heads", 1)
    scale = node.attributes.get_float("scale", None)
    if scale is None and isinstance(dims[-1], int):
        return float((dims[-1] // heads) ** -0.5)
    return scale


def _may_be_one_query(node: ir.Node) -> bool:
    queries, keys = (_length(value) for value in node.inputs[:2])
    if isinstance(queries, int) or queries is None or keys is None:
        return queries == 1
    if isinstance(keys, int):
        return True
    names = re.findall(r"\w+", keys.value or "")
    return queries.value in names and len(names) > 1


def _length(value: ir.Value | None) -> LabelledDim | None:
    """The length of a sequence in a query or key, [B, ·, heads · H] or [B, heads, ·, H]."""
    dims = dims_of(value)
    return dims[-2] if dims is not None and len(dims) in (3, 4) else None
