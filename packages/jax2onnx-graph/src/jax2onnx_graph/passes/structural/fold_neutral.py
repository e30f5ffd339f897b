"""`FoldNeutral`: arithmetic with neutral elements is removed."""

from __future__ import annotations

__all__ = ["FoldNeutral"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import dims_of, same_dims
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass
from jax2onnx_graph.rewrite.patterns import is_floating, other_operand, scalar


class FoldNeutral(NodePass[ir.Value]):
    """Where the result has the shape of x (as in `iota · 1 + 0`, JAX's `arange` of a symbolic length):

    1. `x · 1` and `x / 1` are x.
    2. `x + 0` and `x - 0` are x, for integers: for floats `-0.0 + 0` is `0.0`.
    """

    after = (FoldConstants, EliminateCommonSubexpressions)
    operators = frozenset({"Mul", "Div", "Add", "Sub"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | None:
        """The operand that the result is."""
        facts = facts_of(node.op_type)
        if facts.neutral == 0 and is_floating(node.outputs[0]):
            return None
        for constant in node.inputs if facts.is_commutative else node.inputs[1:]:
            x = other_operand(node, constant)
            if scalar(constant) == facts.neutral and same_dims(dims_of(x), dims_of(node.outputs[0])):
                return x
        return None

    def rewrite(self, node: ir.Node, match: ir.Value, editor: GraphEditor) -> None:
        editor.replace(node, match)
