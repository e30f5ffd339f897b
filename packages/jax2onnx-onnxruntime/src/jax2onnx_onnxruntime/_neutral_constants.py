"""Double constants that ONNX Runtime's optimiser takes for neutral ones, because it looks at them in float.

`x * c` with `c` = 1 + 1e-9 and `x + c` with `c` = 1e-60 are dropped as no-ops (seen in 1.31). The forms
below compute the same, correctly rounded, and are not looked at by that optimisation.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["NeutralConstantsPass"]

# What the optimiser holds to be neutral, by operator; for Sub and Div as the second operand only.
_NEUTRAL = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}


class NeutralConstantsPass(GraphPass):
    """Rewrite arithmetic of doubles with a scalar constant that only rounds to the neutral one.

    1. `Add(x, c)` becomes `Sum(x, c)`, `Sub(x, c)` becomes `Sum(x, -c)`.
    2. `Mul(x, c)` and `Div(x, c)` become `Mul(Mul(x, c/2), 2)` and `Mul(Div(x, 2c), 2)`.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in editor.nodes():
            neutral = _NEUTRAL.get(node.op_type)
            if neutral is None or node.domain or node.outputs[0].dtype != ir.DataType.DOUBLE:
                continue
            places = (1,) if node.op_type in ("Sub", "Div") else (0, 1)
            for place in places:
                number = known(node.inputs[place], limit=1)
                if number is not None and number.size == 1 and _only_rounds_to(float(number.item()), neutral):
                    _replace(editor, node, node.inputs[1 - place], number)
                    break


def _only_rounds_to(number: float, neutral: float) -> bool:
    with np.errstate(over="ignore"):
        return number != neutral and bool(np.float32(number) == np.float32(neutral))


def _replace(editor: GraphEditor, node: ir.Node, operand: ir.Value | None, number: np.ndarray) -> None:
    """Rewrite a node whose other operand is the constant `number`."""
    if node.op_type in ("Add", "Sub"):
        summand = editor.constant(number if node.op_type == "Add" else -number)
        editor.put(node, "Sum", [operand, summand])
        return
    factor = editor.constant(number / 2 if node.op_type == "Mul" else number * 2)
    half = editor.before(node).op(node.op_type, operand, factor)
    editor.put(node, "Mul", [half, editor.constant(np.full_like(number, 2))])
