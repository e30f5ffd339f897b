"""Recognise `RMSNormalization` in its formulas."""

from __future__ import annotations

__all__ = ["FuseRmsNorm"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.passes.fusion._normalisation import Normalised, absorb_scale, put_normalisation, scale_and_root
from jax2onnx_graph.passes.fusion._row_statistics import RowStatistics
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import other_operand

_OPERATOR = "RMSNormalization"


class FuseRmsNorm(GraphPass):
    """Over the last axis, with the mean square m = mean(x²) and a number e:

    1. `x / Sqrt(m + e)` and `x · (1 / Sqrt(m + e))` are `RMSNormalization(x, ones)`.
    2. `x · (1 / Sqrt(m + e) · scale)` is `RMSNormalization(x, scale)`.
    3. A following `Mul` with a scale [C] becomes its input.
    """

    produces = frozenset({_OPERATOR})
    after = ("EliminateCommonSubexpressions", "ImplicitBroadcast")

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Mul", "Div"):
                continue
            if (found := _read(node)) is not None:
                if editor.supports(_OPERATOR, found.x):
                    put_normalisation(editor, node, _OPERATOR, found)
            elif node.op_type == "Mul":
                absorb_scale(editor, node, _OPERATOR)


def _read(node: ir.Node) -> Normalised | None:
    """The product or quotient `node` as the RMS norm of some x."""
    for x in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        if x is None or not dims_of(x):
            continue
        rows, factor = RowStatistics(x), other_operand(node, x)
        scale, shifted = scale_and_root(rows, node, factor)
        mean_square, epsilon = rows.plus_number(shifted)
        if mean_square is not None and rows.is_mean_square(mean_square):
            return Normalised(x, scale, epsilon)
    return None
