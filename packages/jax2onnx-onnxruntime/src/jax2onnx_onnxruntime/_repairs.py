"""Special values that the kernels of older versions lose: the results are put right behind the operator.

What the newest version loses, rules and passes ask the target about; what only older ones lose stands here.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.legalise import repairs
from jax2onnx_graph.legalise.repairs import Loss, with_nan
from jax2onnx_graph.targets import Target

__all__ = ["RepairsPass"]


class RepairsPass(repairs.RepairsPass):
    """Restore the parts of operators' meanings that kernels of a version lose.

    1. `Max`, `Min` and `Erf` that lose NaN: a NaN among the operands is the result; constants without NaN are not looked at.
    2. `Sqrt` that loses infinities: for those, and for zero, the operand is the result.

    The sign of zero, which `Floor`, `Ceil` and `Sqrt` lose in the same versions, cannot be had: `Where` loses it too.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target, _LOSSES)


def _with_infinity(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    (x,) = operands
    kept = b.op("Or", b.op("Equal", x, b.constant(0, like=x)), b.op("Equal", x, b.constant(np.inf, like=x)))
    return b.op("Where", kept, x, result)


_LOSSES = {
    "Max": Loss("nan", with_nan),
    "Min": Loss("nan", with_nan),
    "Erf": Loss("nan", with_nan),
    "Sqrt": Loss("inf", _with_infinity),
}
