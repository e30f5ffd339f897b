"""Recognise `RMSNormalization` in its formulas."""

from __future__ import annotations

__all__ = ["RecoverRmsNorm"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.passes.recover.normalised import absorb_scale, rewrite_normalisation, scale_of
from jax2onnx_graph.passes.recover.row_statistics import Rows
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import FLOATS, VersionedPass, other_operand


class RecoverRmsNorm(VersionedPass):
    """From opset 23, over the last axis, with the mean square m = mean(x²) and a number e:

    1. `x / Sqrt(m + e)` and `x · (1 / Sqrt(m + e))` are `RMSNormalization(x, ones)`.
    2. `x · (1 / Sqrt(m + e) · scale)` is `RMSNormalization(x, scale)`.
    3. A following `Mul` with a scale [C] becomes its input.
    """

    lowest_opset = 23

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Mul", "Div") or node.outputs[0].dtype not in FLOATS:
                continue
            if (found := _normalised(node)) is None:
                if node.op_type == "Mul":
                    absorb_scale(editor, node, "RMSNormalization")
                continue
            rewrite_normalisation(editor, node, "RMSNormalization", found)


def _normalised(node: ir.Node) -> tuple[ir.Value, ir.Value | None, float] | None:
    """(x, scale, epsilon) where the node is x over the root of its mean square."""
    for x in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        if x is None or not dims_of(x):
            continue
        rows, factor = Rows(x), other_operand(node, x)
        if node.op_type == "Div":
            scale, shifted = None, rows.root(factor)
        else:
            scale, shifted = scale_of(rows, factor)
        mean_square, epsilon = rows.plus_number(shifted)
        if mean_square is not None and rows.is_mean_square(mean_square):
            return x, scale, epsilon
    return None
