"""Remove arithmetic with neutral elements."""

from __future__ import annotations

__all__ = ["FoldNeutral"]

from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_floating, other_operand, scalar


class FoldNeutral(GraphPass):
    """Where the result has the shape of x (as in `iota · 1 + 0`, JAX's `arange` of a symbolic length):

    1. `x · 1` and `x / 1` are x.
    2. `x + 0` and `x - 0` are x, for integers: for floats `-0.0 + 0` is `0.0`.
    """

    after = (FoldConstants, EliminateCommonSubexpressions)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Mul", "Div", "Add", "Sub"):
                continue
            additive = node.op_type in ("Add", "Sub")
            if additive and is_floating(node.outputs[0]):
                continue
            for neutral in node.inputs[1:] if node.op_type in ("Div", "Sub") else node.inputs:
                x = other_operand(node, neutral)
                if scalar(neutral) != (0 if additive else 1) or x is None:
                    continue
                if same_dims(dims_of(x), dims_of(node.outputs[0])):
                    editor.replace(node, x)
                    break
