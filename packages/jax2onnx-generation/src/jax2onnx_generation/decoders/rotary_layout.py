"""`RotaryLayout`: `RotaryEmbedding` of heads that are put first afterwards takes them first."""

from __future__ import annotations

import dataclasses

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass
from jax2onnx_graph.rewrite.patterns import operation, permutation_of

__all__ = ["RotaryLayout"]

_HEADS = (0, 2, 1, 3)  # [B, T, N, H] as [B, N, T, H]


@dataclasses.dataclass(frozen=True)
class _Rotated:
    """A rotation of heads.

    Attributes:
      rotation: the node of the 3-D form.
      heads: what it rotates, [B, T, N, H].
    """

    rotation: ir.Node
    heads: ir.Value


class RotaryLayout(NodePass[_Rotated]):
    """A `Transpose` to [B, N, T, H] of what `RotaryEmbedding` makes of x [B, T, N, H] in its 3-D form, [B, T, N · H]:

    1. It is the 4-D form of the transpose of x, which needs no reshape.
    """

    operators = frozenset({"Transpose"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Rotated | Declined | None:
        split = operation(node.inputs[0], "Reshape") if permutation_of(node) == _HEADS else None
        rotation = None if split is None else operation(split.inputs[0], "RotaryEmbedding")
        merge = None if rotation is None else operation(rotation.inputs[0], "Reshape")
        if rotation is None or merge is None or len(rotation.inputs) != 3 or merge.inputs[0] is None:
            return None
        # The same [B, T, N, H] before and after, and a 3-D form in between.
        heads, merged = merge.inputs[0], dims_of(rotation.inputs[0])
        if not same_dims(dims_of(heads), dims_of(node.inputs[0])) or merged is None or len(merged) != 3:
            return None
        count = (dims_of(heads) or ())[2]
        if "num_heads" not in rotation.attributes or rotation.attributes["num_heads"].as_int() != count:
            return None
        return _Rotated(rotation, heads)

    def rewrite(self, node: ir.Node, match: _Rotated, editor: GraphEditor) -> None:
        builder = editor.before(node)
        turned = builder.transpose(match.heads, _HEADS)
        operands = [turned, *match.rotation.inputs[1:]]
        dims = labelled(dims_of(node.outputs[0]) or ())
        editor.replace(node, builder.variant(match.rotation, operands, dims=dims, without=("num_heads",)))
