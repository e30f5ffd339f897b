"""Special values that the kernels of older versions lose: the results are put right behind the operator.

What the newest version loses, rules and passes ask the target about; what only older ones lose stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import Property, Target, standard_target

from jax2onnx_onnxruntime.guarantees import guarantees

__all__ = ["RepairsPass"]

#: The right result of a node, from its operands and the result of its kernel.
Repair = Callable[[GraphBuilder, list[ir.Value], ir.Value], ir.Value]


class _Loss(NamedTuple):
    """What a kernel may lose, and how the result is put right."""

    kept: Property
    repair: Repair


class RepairsPass(GraphPass):
    """Put right what kernels of a version lose.

    1. `Max`, `Min` and `Erf` that lose NaN: a NaN among the operands is the result; constants without NaN are not looked at.
    2. `Sqrt` that loses infinities: of those, and of zero, the operand is the result.

    The sign of zero, which `Floor`, `Ceil` and `Sqrt` lose in the same versions, cannot be had: `Where` loses it too.
    """

    def __init__(self, target: Target = standard_target, *, version: str) -> None:
        super().__init__(target)
        self._version = version

    def rewrite(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            loss = None if node.domain else _LOSSES.get(node.op_type)
            dtype = node.outputs[0].dtype
            if loss is None or dtype is None or guarantees(node.op_type, dtype.numpy(), loss.kept, self._version):
                continue
            operands = [value for value in node.inputs if value is not None]
            repair = partial(loss.repair, editor.after(node.outputs[0]), operands)
            editor.reroute(node.outputs[0], repair)


def _with_nan(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    dims = b.dims(result)
    for value in operands:
        tensor = constant_tensor(value)
        if tensor is None or np.isnan(tensor.numpy().astype(np.float64)).any():
            result = b.op("Where", b.op("IsNaN", value), value, result, dims=dims)
    return result


def _with_infinity(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    (x,) = operands
    kept = b.op("Or", b.op("Equal", x, b.constant(0, like=x)), b.op("Equal", x, b.constant(np.inf, like=x)))
    return b.op("Where", kept, x, result)


_LOSSES = {
    "Max": _Loss("nan", _with_nan),
    "Min": _Loss("nan", _with_nan),
    "Erf": _Loss("nan", _with_nan),
    "Sqrt": _Loss("inf", _with_infinity),
}
