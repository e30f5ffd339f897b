"""`FuseRmsNorm`: formulas of RMS norm become `RMSNormalization`."""

from __future__ import annotations

__all__ = ["FuseRmsNorm"]

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.patterns import operation

from jax2onnx_fusions.normalisation._normalisation import NormalisationPass
from jax2onnx_fusions.normalisation._row_statistics import RowStatistics


class FuseRmsNorm(NormalisationPass):
    """`RMSNormalization`: over the last axis, with the mean square m = mean(x²) and a number e:

    1. `x / Sqrt(m + e)` and `x · (1 / Sqrt(m + e))` are `RMSNormalization(x, ones)`.
    2. `x · (1 / Sqrt(m + e) · scale)` is `RMSNormalization(x, scale)`.
    3. So is `(scale · x) / Sqrt(m + e)`, and the same with the factor.
    4. A following `Mul` with a scale [C] becomes its input.
    """

    op_type = "RMSNormalization"
    produces = frozenset({op_type})
    operators = frozenset({"Mul", "Div"})

    def rows_of(self, dividend: ir.Value) -> RowStatistics | None:
        return RowStatistics(dividend) if dims_of(dividend) else None

    def is_spread(self, rows: RowStatistics, value: ir.Value | None) -> bool:
        return value is not None and rows.is_mean_square(value)

    def is_told(self, dividend: ir.Value) -> bool:
        return operation(dividend, "Sub") is None  # a difference is what a layer norm divides
