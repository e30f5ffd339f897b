"""Recognise `LayerNormalization` in its formulas."""

from __future__ import annotations

__all__ = ["RecoverLayerNorm"]

import onnx_ir as ir
from jax2onnx_core.passes.graph_pass import GraphPass, Scope

from jax2onnx_lax.passes.matching import FLOATS, operation, other_operand
from jax2onnx_lax.passes.normalised import absorb_bias, absorb_scale, rewrite_normalisation, scale_of
from jax2onnx_lax.passes.rows import Rows


class RecoverLayerNorm(GraphPass):
    """Over the last axis, with d = x - mean(x), the variance v as mean(d²) or as mean(x²) - mean(x)², clipped
    at zero or not, and a number e:

    1. `d / Sqrt(v + e)` and `d · (1 / Sqrt(v + e))` are `LayerNormalization(x, ones)`.
    2. `d · (1 / Sqrt(v + e) · scale)`, as Flax writes it, is `LayerNormalization(x, scale)`.
    3. A following `Mul` with a constant scale and `Add` of a constant bias, [C], become its inputs.
    """

    def rewrite(self, scope: Scope) -> None:
        for node in scope.nodes():
            if node.domain or node.outputs[0].dtype not in FLOATS:
                continue
            if node.op_type in ("Mul", "Div") and (found := _normalised(node)) is not None:
                rewrite_normalisation(scope, node, "LayerNormalization", found)
            elif node.op_type == "Mul":
                absorb_scale(scope, node, "LayerNormalization")
            elif node.op_type == "Add":
                absorb_bias(scope, node, "LayerNormalization")


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
