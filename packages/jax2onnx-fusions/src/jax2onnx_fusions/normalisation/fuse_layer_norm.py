"""`FuseLayerNorm`: formulas of layer norm become `LayerNormalization`."""

from __future__ import annotations

__all__ = ["FuseLayerNorm"]

from jax2onnx_graph import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, other_operand

from jax2onnx_fusions.normalisation._normalisation import (
    Normalised,
    biased,
    normalised,
    put_normalisation,
    scale_and_root,
    scaled,
    unscaled,
    with_other_epsilon,
)
from jax2onnx_fusions.normalisation._row_statistics import RowStatistics

_OPERATOR = "LayerNormalization"


class FuseLayerNorm(NodePass[Normalised]):
    """`LayerNormalization`: over the last axis, with d = x - mean(x), the variance v as mean(d²) or as mean(x²) - mean(x)², clipped
    at zero or not, and a number e:

    1. `d / Sqrt(v + e)` and `d · (1 / Sqrt(v + e))` are `LayerNormalization(x, ones)`.
    2. `d · (1 / Sqrt(v + e) · scale)`, as Flax writes it, is `LayerNormalization(x, scale)`.
    3. So is `(scale · d) / Sqrt(v + e)`, and the same with the factor.
    4. A following `Mul` with a constant scale and `Add` of a constant bias, [C], become its inputs.
    """

    phase = Phase.FUSE
    produces = frozenset({_OPERATOR})
    operators = frozenset({"Mul", "Div", "Add"})

    def match(self, node: ir.Node, editor: GraphEditor) -> Normalised | Declined | None:
        if node.op_type == "Add":
            return biased(node, _OPERATOR)
        if (found := _read(node)) is not None:
            return normalised(node, _OPERATOR, *found, editor)
        return scaled(node, _OPERATOR) if node.op_type == "Mul" else _nearly_read(node)

    def rewrite(self, node: ir.Node, match: Normalised, editor: GraphEditor) -> None:
        put_normalisation(editor, node, _OPERATOR, match)


def _nearly_read(quotient: ir.Node) -> Declined | None:
    """Why a quotient that has all of a layer norm but its epsilon is none."""
    for centred, _ in unscaled(quotient.inputs[0]):
        subtraction = operation(centred, "Sub")
        x = None if subtraction is None else subtraction.inputs[0]
        if x is not None and (rows := RowStatistics(x)).is_centred(centred):
            return with_other_epsilon(quotient, rows, rows.is_variance)
    return None


def _read(node: ir.Node) -> tuple[ir.Value, ir.Value | None, float] | None:
    """(x, scale, epsilon) where the product or quotient `node` is the layer norm of x."""
    for operand in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
        for centred, before in unscaled(operand):
            subtraction = operation(centred, "Sub")
            x = None if subtraction is None else subtraction.inputs[0]
            if x is None or not (rows := RowStatistics(x)).is_centred(centred):
                continue
            scale, shifted = scale_and_root(rows, node, other_operand(node, operand))
            variance, epsilon = rows.plus_number(shifted)
            if rows.is_variance(variance) and (scale is None or before is None):
                return x, scale or before, epsilon
    return None
