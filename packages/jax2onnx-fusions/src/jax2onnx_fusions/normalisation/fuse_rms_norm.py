"""`FuseRmsNorm`: formulas of RMS norm become `RMSNormalization`."""

from __future__ import annotations

__all__ = ["FuseRmsNorm"]

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, other_operand

from jax2onnx_fusions.normalisation._normalisation import (
    Normalised,
    normalised,
    put_normalisation,
    scale_and_root,
    scaled,
    unscaled,
    with_other_epsilon,
)
from jax2onnx_fusions.normalisation._row_statistics import RowStatistics

_OPERATOR = "RMSNormalization"


class FuseRmsNorm(NodePass[Normalised]):
    """`RMSNormalization`: over the last axis, with the mean square m = mean(x²) and a number e:

    1. `x / Sqrt(m + e)` and `x · (1 / Sqrt(m + e))` are `RMSNormalization(x, ones)`.
    2. `x · (1 / Sqrt(m + e) · scale)` is `RMSNormalization(x, scale)`.
    3. So is `(scale · x) / Sqrt(m + e)`, and the same with the factor.
    4. A following `Mul` with a scale [C] becomes its input.
    """

    phase = Phase.FUSE
    produces = frozenset({_OPERATOR})
    operators = frozenset({"Mul", "Div"})

    def match(self, node: ir.Node, editor: GraphEditor) -> Normalised | Declined | None:
        if (found := _read(node)) is not None:
            return normalised(node, _OPERATOR, *found, editor)
        return scaled(node, _OPERATOR) if node.op_type == "Mul" else _nearly_read(node)

    def rewrite(self, node: ir.Node, match: Normalised, editor: GraphEditor) -> None:
        put_normalisation(editor, node, _OPERATOR, match)


def _nearly_read(quotient: ir.Node) -> Declined | None:
    """Why a quotient that has all of an RMS norm but its epsilon is none; of a difference, which a layer norm divides, it is not told."""
    for x, _ in unscaled(quotient.inputs[0]):
        if dims_of(x) and operation(x, "Sub") is None:
            rows = RowStatistics(x)
            declined = with_other_epsilon(quotient, rows, rows.is_mean_square)
            if declined is not None:
                return declined
    return None


def _read(node: ir.Node) -> tuple[ir.Value, ir.Value | None, float] | None:
    """(x, scale, epsilon) where the product or quotient `node` is the RMS norm of x."""
    for operand in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        for x, before in unscaled(operand):
            if not dims_of(x):
                continue
            rows = RowStatistics(x)
            scale, shifted = scale_and_root(rows, node, other_operand(node, operand))
            mean_square, epsilon = rows.plus_number(shifted)
            if mean_square is not None and rows.is_mean_square(mean_square) and (scale is None or before is None):
                return x, scale or before, epsilon
    return None
