"""`RepairsPass`: special values that the kernels of a runtime lose are put right behind the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.availability import main_value
from jax2onnx_graph.facts.values import given_operands, known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import Property, Target

__all__ = ["Loss", "Repair", "RepairsPass", "with_nan"]

#: The right result of a node, from its operands and the result of its kernel.
Repair = Callable[[GraphBuilder, list[ir.Value], ir.Value], ir.Value]


class Loss(NamedTuple):
    """A part of an operator's meaning that a kernel may lose.

    Attributes:
      kept: the part.
      repair: writes the right result.
      result: the element type of results that are concerned; None for all.
    """

    kept: Property
    repair: Repair
    result: ir.DataType | None = None


class RepairsPass(GraphPass):
    """Restore the parts of operators' meanings that kernels lose.

    1. Behind an operator among `losses` that the target does not guarantee the property for stands its repair.
    """

    def __init__(self, target: Target, losses: Mapping[str, Loss]) -> None:
        super().__init__(target)
        self._losses = losses

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in list(editor.nodes()):
            loss = None if node.domain else self._losses.get(node.op_type)
            if loss is None or loss.result not in (None, node.outputs[0].dtype):
                continue
            dtype = main_value(node, editor.opset).dtype
            if dtype is None or self.target.keeps(node.op_type, dtype.numpy(), loss.kept):
                continue
            operands = given_operands(node)
            repair = partial(loss.repair, editor.after(node.outputs[0]), operands)
            editor.reroute(node.outputs[0], repair)


def with_nan(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    """The result of a kernel that loses NaN, with a NaN wherever an operand has one.

    Args:
      b: writes the nodes.
      operands: the operands, floats that broadcast to the result; known constants without NaN are left out.
      result: the result of the kernel.
    """
    dims = b.dims(result)
    for value in operands:
        array = known(value, limit=None)
        if array is None or np.isnan(array.astype(np.float64)).any():
            result = b.op("Where", b.op("IsNaN", value), value, result, dims=dims)
    return result
