"""NaN, which some of OpenVINO's kernels lose: the results are put right behind the operator."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.legalise import repairs
from jax2onnx_graph.legalise.repairs import Loss, Repair, with_nan
from jax2onnx_graph.targets import Target, standard_target

__all__ = ["RepairsPass"]


class RepairsPass(repairs.RepairsPass):
    """Put NaN back.

    1. `Max`, `Min`, `Clip`, `Exp`, `Celu` and `HardSigmoid`: a NaN among the operands is the result.
    2. `Relu`: what is below zero is zero, anything else stays.
    3. `Greater` and `GreaterOrEqual`, which are true of NaN, are `Less` and `LessOrEqual` of the exchanged operands.
    4. `Cast` to booleans, false of NaN: whether the number is not equal to zero.
    """

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target, _LOSSES)


def _chosen(b: GraphBuilder, operands: list[ir.Value], _: ir.Value) -> ir.Value:
    (x,) = operands
    zero = b.constant(0, like=x)
    return b.op("Where", b.op("Less", x, zero), zero, x, dims=b.dims(x))


def _exchanged(op_type: str) -> Repair:
    def repair(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
        x, y = operands
        return b.op(op_type, y, x, dims=b.dims(result))

    return repair


def _is_true(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    (x,) = operands
    return b.op("Not", b.op("Equal", x, b.constant(0, like=x)), dims=b.dims(result))


_LOSSES = {
    **dict.fromkeys(("Max", "Min", "Clip", "Exp", "Celu", "HardSigmoid"), Loss("nan", with_nan)),
    "Relu": Loss("nan", _chosen),
    "Greater": Loss("nan", _exchanged("Less")),
    "GreaterOrEqual": Loss("nan", _exchanged("LessOrEqual")),
    "Cast": Loss("nan", _is_true, result=ir.DataType.BOOL),
}
