"""Sigmoids of whose small results the relative precision counts, which ONNX Runtime's kernel does not have.

Its results in float32 are off by up to 1e-7, whatever their size: 2e-4 of the result at -10, half of it at -16, and from -18 on they are
zero; those in float64 by up to 1e-17, and zero from -37 on (seen in 1.32). So the logarithm of a probability of 1e-8 is minus infinity, and the gradient of that NaN; gates that are divided by
their sum are, where all of them are small, other numbers; and of small scores the order is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass

__all__ = ["SmallProbabilitiesPass"]

_INEXACT = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
# So many operators may stand between a probability and what counts on its relative precision.
_FAR = 6
# Their results are as small as an operand, or as its difference from 1.
_BETWEEN = frozenset({
    "Abs", "Add", "Cast", "Clip", "Concat", "CumSum", "Div", "Expand", "Gather", "GatherElements", "Identity", "Max", "Min", "Mul", "Neg",
    "Pow", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Transpose",
    "Unsqueeze", "Where",
})  # fmt: skip
_LARGE_OR_ORDERED = frozenset({"ArgMax", "ArgMin", "Log", "Reciprocal", "Sqrt", "TopK"})
_COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
# Numbers from this one on are not small: the kernel is off by less than a ten-thousandth of them.
_ORDINARY = 1e-3


class SmallProbabilitiesPass(NodePass[ir.Value]):
    """Write Sigmoids by their formula where their relative precision counts.

    1. `Sigmoid(x)` in float32 or float64 is `1 / (1 + Exp(-x))` where it, or what is as small, is put in order, compared with numbers that may be
       small, divided by or divides numbers that no constant gives, or is an operand of a logarithm, reciprocal or root.
    """

    operators = frozenset({"Sigmoid"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | None:
        x = node.inputs[0]
        return x if node.outputs[0].dtype in _INEXACT and _counts(node.outputs, x) else None

    def rewrite(self, node: ir.Node, match: ir.Value, editor: GraphEditor) -> None:
        builder = editor.before(node)
        power = builder.op.Exp(builder.op.Neg(match))
        editor.put(node, "Reciprocal", [builder.op.Add(power, builder.constant(1, like=power))])


def _counts(values: Iterable[ir.Value], x: ir.Value | None) -> bool:
    """Whether the relative precision of one of the values counts; `x` is what they were computed from."""
    for _ in range(_FAR + 1):
        uses = [use for value in values for use in value.uses()]
        if any(_is_large_or_ordered(node, index) for node, index in uses):
            return True
        # A gate of its own operand, x * Sigmoid(x), is no probability.
        values = dict.fromkeys(
            node.outputs[0]
            for node, _ in uses
            if node.op_type in _BETWEEN and not (node.op_type == "Mul" and x in node.inputs)
        )
    return False


def _is_large_or_ordered(node: ir.Node, index: int) -> bool:
    """Whether of a small operand, that of this index, the result is ordinary or large, or the order is asked for."""
    if node.op_type not in {"Div", "Pow", *_COMPARISONS}:
        return node.op_type in _LARGE_OR_ORDERED
    other = known(node.inputs[1 - index], limit=None)
    if node.op_type == "Div":
        return index == 1 or other is None
    if node.op_type == "Pow":
        return index == 0 and (other is None or bool((other < 1).any()))
    return other is None or bool((np.abs(other) < _ORDINARY).any())
