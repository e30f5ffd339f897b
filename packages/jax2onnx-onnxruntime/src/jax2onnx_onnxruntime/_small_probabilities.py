"""Sigmoids whose small results are looked at by their logarithms or reciprocals, which ONNX Runtime's kernel does not have.

Its results in float32 are off by up to 1e-7, whatever their size: 2e-4 of the result at -10, half of it at -16, and from -18 on they are
zero (seen in 1.32). So the logarithm of a probability of 1e-8 is minus infinity, and the gradient of that NaN.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass

__all__ = ["SmallProbabilitiesPass"]

# So many operators may stand between a probability and its logarithm.
_FAR = 6
# Their results are as small as an operand, or as its difference from 1.
_BETWEEN = frozenset({
    "Add", "Cast", "Clip", "Concat", "Expand", "Gather", "Identity", "Max", "Min", "Neg", "Reshape", "Slice", "Squeeze", "Sub",
    "Transpose", "Unsqueeze", "Where",
})  # fmt: skip


class SmallProbabilitiesPass(NodePass[ir.Value]):
    """Write Sigmoids by their formula where their relative precision counts.

    1. `Sigmoid(x)` in float32, of which a logarithm, a quotient by it, or its reciprocal is taken, is `1 / (1 + Exp(-x))`.
    """

    operators = frozenset({"Sigmoid"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | None:
        result = node.outputs[0]
        return node.inputs[0] if result.dtype == ir.DataType.FLOAT and _is_inverted([result]) else None

    def rewrite(self, node: ir.Node, match: ir.Value, editor: GraphEditor) -> None:
        op = editor.before(node).op
        editor.put(node, "Reciprocal", [op.Add(op.Exp(op.Neg(match)), editor.constant(np.ones((), np.float32)))])


def _is_inverted(values: Iterable[ir.Value]) -> bool:
    """Whether a logarithm or reciprocal is taken of one of the values, or of what is as small."""
    for _ in range(_FAR + 1):
        uses = [use for value in values for use in value.uses()]
        if any(
            use.node.op_type in ("Log", "Reciprocal") or (use.node.op_type == "Div" and use.idx == 1) for use in uses
        ):
            return True
        values = dict.fromkeys(use.node.outputs[0] for use in uses if use.node.op_type in _BETWEEN)
    return False
