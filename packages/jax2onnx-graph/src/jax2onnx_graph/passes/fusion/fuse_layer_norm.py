"""Recognise `LayerNormalization` in its formulas."""

from __future__ import annotations

__all__ = ["FuseLayerNorm"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.fusion._normalisation import (
    Normalised,
    absorb_bias,
    absorb_scale,
    put_normalisation,
    scale_and_root,
)
from jax2onnx_graph.passes.fusion._row_statistics import RowStatistics
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation, other_operand

_OPERATOR = "LayerNormalization"


class FuseLayerNorm(GraphPass):
    """Over the last axis, with d = x - mean(x), the variance v as mean(d²) or as mean(x²) - mean(x)², clipped
    at zero or not, and a number e:

    1. `d / Sqrt(v + e)` and `d · (1 / Sqrt(v + e))` are `LayerNormalization(x, ones)`.
    2. `d · (1 / Sqrt(v + e) · scale)`, as Flax writes it, is `LayerNormalization(x, scale)`.
    3. A following `Mul` with a constant scale and `Add` of a constant bias, [C], become its inputs.
    """

    produces = frozenset({_OPERATOR})
    after = ("EliminateCommonSubexpressions", "ImplicitBroadcast")

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Mul", "Div", "Add"):
                continue
            if node.op_type == "Add":
                absorb_bias(editor, node, _OPERATOR)
            elif (found := _read(node)) is not None:
                if editor.supports(_OPERATOR, found.x):
                    put_normalisation(editor, node, _OPERATOR, found)
            elif node.op_type == "Mul":
                absorb_scale(editor, node, _OPERATOR)


def _read(node: ir.Node) -> Normalised | None:
    """The product or quotient `node` as the layer norm of some x."""
    for centred in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        subtraction = operation(centred, "Sub")
        x = None if subtraction is None else subtraction.inputs[0]
        if x is None or not (rows := RowStatistics(x)).is_centred(centred):
            continue
        factor = other_operand(node, centred)
        scale, shifted = scale_and_root(rows, node, factor)
        variance, epsilon = rows.plus_number(shifted)
        if rows.is_variance(variance):
            return Normalised(x, scale, epsilon)
    return None
