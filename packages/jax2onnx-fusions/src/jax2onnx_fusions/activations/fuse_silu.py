"""`FuseSilu`: formulas of the logistic function and of silu become `Sigmoid`."""

from __future__ import annotations

__all__ = ["FuseSilu"]

import dataclasses

from jax2onnx_graph import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import Formula, matches, scalar

from jax2onnx_fusions._reasons import no_operator

_DIVISOR = Formula("Add", 1, Formula("Exp", Formula("Neg", "x")))


@dataclasses.dataclass(frozen=True)
class _Logistic:
    """Sigmoid(x), or x · Sigmoid(x) if `is_silu`."""

    x: ir.Value
    is_silu: bool


class FuseSilu(NodePass[_Logistic]):
    """The logistic function, which the formula computes in four operators:

    1. `1 / (1 + Exp(-x))` is `Sigmoid(x)`.
    2. `x / (1 + Exp(-x))`, known as SiLU or Swish, is `x · Sigmoid(x)`.
    """

    phase = Phase.FUSE
    produces = frozenset({"Sigmoid"})
    operators = frozenset({"Div", "Reciprocal"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Logistic | Declined | None:
        found = next(matches(_DIVISOR, node.inputs[-1]), None)
        if found is None:
            return None
        x = found["x"]
        is_silu = node.op_type == "Div" and node.inputs[0] is x
        if node.op_type == "Div" and not is_silu and scalar(node.inputs[0]) != 1:
            return Declined("the numerator over 1 + exp(-x) is neither 1 nor x", node)
        return _Logistic(x, is_silu) if editor.supports("Sigmoid", x) else Declined(no_operator("Sigmoid", x), node)

    def rewrite(self, node: ir.Node, match: _Logistic, editor: GraphEditor) -> None:
        if match.is_silu:
            editor.put(node, "Mul", [match.x, editor.before(node).op.Sigmoid(match.x)])
        else:
            editor.put(node, "Sigmoid", [match.x])
