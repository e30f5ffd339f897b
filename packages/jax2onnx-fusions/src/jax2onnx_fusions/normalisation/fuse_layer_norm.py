"""`FuseLayerNorm`: formulas of layer norm become `LayerNormalization`."""

from __future__ import annotations

__all__ = ["FuseLayerNorm"]

from jax2onnx_graph import ir
from jax2onnx_graph.rewrite.patterns import operation

from jax2onnx_fusions.normalisation._normalisation import NormalisationPass
from jax2onnx_fusions.normalisation._row_statistics import RowStatistics


class FuseLayerNorm(NormalisationPass):
    """`LayerNormalization`: over the last axis, with d = x - mean(x), the variance v as mean(d²) or as mean(x²) - mean(x)², clipped
    at zero or not, and a number e:

    1. `d / Sqrt(v + e)` and `d · (1 / Sqrt(v + e))` are `LayerNormalization(x, ones)`.
    2. `d · (1 / Sqrt(v + e) · scale)`, as Flax writes it, is `LayerNormalization(x, scale)`.
    3. So is `(scale · d) / Sqrt(v + e)`, and the same with the factor.
    4. A following `Mul` with a constant scale and `Add` of a constant bias, [C], become its inputs.
    """

    op_type = "LayerNormalization"
    produces = frozenset({op_type})
    operators = frozenset({"Mul", "Div", "Add"})

    def rows_of(self, dividend: ir.Value) -> RowStatistics | None:
        subtraction = operation(dividend, "Sub")
        x = None if subtraction is None else subtraction.inputs[0]
        return rows if x is not None and (rows := RowStatistics(x)).is_centred(dividend) else None

    def is_spread(self, rows: RowStatistics, value: ir.Value | None) -> bool:
        return rows.is_variance(value)
