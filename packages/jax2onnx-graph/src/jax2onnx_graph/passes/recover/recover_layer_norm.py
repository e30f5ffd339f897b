"""Recognise `LayerNormalization` in its formulas."""

from __future__ import annotations

__all__ = ["RecoverLayerNorm"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.recover.normalised import absorb_bias, absorb_scale, rewrite_normalisation, scale_of
from jax2onnx_graph.passes.recover.row_statistics import Rows
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import FLOATS, operation, other_operand


class RecoverLayerNorm(GraphPass):
    """Over the last axis, with d = x - mean(x), the variance v as mean(d²) or as mean(x²) - mean(x)², clipped
    at zero or not, and a number e:

    1. `d / Sqrt(v + e)` and `d · (1 / Sqrt(v + e))` are `LayerNormalization(x, ones)`.
    2. `d · (1 / Sqrt(v + e) · scale)`, as Flax writes it, is `LayerNormalization(x, scale)`.
    3. A following `Mul` with a constant scale and `Add` of a constant bias, [C], become its inputs.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.outputs[0].dtype not in FLOATS:
                continue
            if node.op_type in ("Mul", "Div") and (found := _normalised(node)) is not None:
                rewrite_normalisation(editor, node, "LayerNormalization", found)
            elif node.op_type == "Mul":
                absorb_scale(editor, node, "LayerNormalization")
            elif node.op_type == "Add":
                absorb_bias(editor, node, "LayerNormalization")


def _normalised(node: ir.Node) -> tuple[ir.Value, ir.Value | None, float] | None:
    """(x, scale, epsilon) where the node is x, normalised."""
    for centred in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        subtraction = operation(centred, "Sub")
        x = None if subtraction is None else subtraction.inputs[0]
        if x is None or not (rows := Rows(x)).is_centred(centred):
            continue
        factor = other_operand(node, centred)
        if node.op_type == "Div":
            scale, shifted = None, rows.root(factor)
        else:
            scale, shifted = scale_of(rows, factor)
        variance, epsilon = rows.plus_number(shifted)
        if rows.is_variance(variance):
            return x, scale, epsilon
    return None
