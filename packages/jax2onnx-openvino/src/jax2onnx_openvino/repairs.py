"""NaN, which some of OpenVINO's kernels lose: the results are put right behind the operator."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.legalise import repairs
from jax2onnx_graph.legalise.repairs import Loss, with_nan
from jax2onnx_graph.targets import Target, standard_target

__all__ = ["RepairsPass"]


class RepairsPass(repairs.RepairsPass):
    """Put NaN back.

    1. `Max`, `Min`, `Clip`, `Exp` and `HardSigmoid`: a NaN among the operands is the result.
    2. `Relu`: what is below zero is zero, anything else stays.
    """

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target, _LOSSES)


def _chosen(b: GraphBuilder, operands: list[ir.Value], _: ir.Value) -> ir.Value:
    (x,) = operands
    zero = b.constant(0, like=x)
    return b.op("Where", b.op("Less", x, zero), zero, x, dims=b.dims(x))


_LOSSES = {
    **dict.fromkeys(("Max", "Min", "Clip", "Exp", "HardSigmoid"), Loss("nan", with_nan)),
    "Relu": Loss("nan", _chosen),
}
