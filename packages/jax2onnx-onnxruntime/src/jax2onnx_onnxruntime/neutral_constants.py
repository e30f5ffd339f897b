"""Double constants that ONNX Runtime's optimiser takes for neutral ones, because it looks at them in float.

`x * c` with `c` = 1 + 1e-9 and `x + c` with `c` = 1e-60 are dropped as no-ops (seen in 1.31). The forms
below compute the same, correctly rounded, and are not looked at by that optimisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["NeutralConstantsPass"]

# What the optimiser holds to be neutral, by operator; None where only the second operand counts.
_NEUTRAL = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}


class NeutralConstantsPass(ir.passes.InPlacePass):
    """Rewrite arithmetic of doubles with a scalar constant that only rounds to the neutral one.

    1. `Add(x, c)` becomes `Sum(x, c)`, `Sub(x, c)` becomes `Sum(x, -c)`.
    2. `Mul(x, c)` and `Div(x, c)` become `Mul(Mul(x, c/2), 2)` and `Mul(Div(x, 2c), 2)`.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above, in the main graph, in subgraphs and in functions."""
        found = [(node, index) for node in _nodes(model) for index in _endangered_by(node)]
        for node, index in found:
            _rewrite(node, index)
        return ir.passes.PassResult(model, bool(found))


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield from ir.traversal.RecursiveGraphIterator(graph)


def _endangered_by(node: ir.Node) -> list[int]:
    """The index of the operand that the optimiser misjudges, if there is one."""
    neutral = _NEUTRAL.get(node.op_type)
    if neutral is None or node.domain != "" or node.outputs[0].dtype != ir.DataType.DOUBLE:
        return []
    places = [1] if node.op_type in ("Sub", "Div") else [0, 1]
    return [i for i in places if _only_rounds_to(node.inputs[i], neutral)][:1]


def _only_rounds_to(value: ir.Value | None, neutral: float) -> bool:
    if value is None or value.const_value is None or value.const_value.size != 1:
        return False
    number = float(value.const_value.numpy().reshape(()))
    return number != neutral and np.float32(number) == np.float32(neutral)


def _rewrite(node: ir.Node, index: int) -> None:
    constant, other = node.inputs[index], node.inputs[1 - index]
    assert constant is not None and constant.const_value is not None
    number = constant.const_value.numpy()
    if node.op_type in ("Add", "Sub"):
        operands = [other, _constant(node, number if node.op_type == "Add" else -number, "constant")]
        node.op_type = "Sum"
    else:
        factor = _constant(node, number / 2 if node.op_type == "Mul" else number * 2, "constant")
        operands = [_emit(node, node.op_type, [other, factor], "half"), _constant(node, np.full_like(number, 2), "two")]
        node.op_type = "Mul"
    for i, operand in enumerate(operands):
        node.replace_input_with(i, operand)


def _constant(before: ir.Node, array: np.ndarray[Any, Any], part: str) -> ir.Value:
    return _emit(before, "Constant", [], part, [ir.AttrTensor("value", ir.tensor(np.asarray(array)))], ir.Shape(array.shape))


def _emit(
    before: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], part: str,
    attributes: Sequence[ir.Attr] = (), shape: ir.Shape | None = None,
) -> ir.Value:  # fmt: skip
    """A node before `before`, whose result has the type and (unless given) the shape of that node's."""
    result = before.outputs[0]
    name = f"{result.name}_{part}"
    value = ir.Value(name=name, type=result.type, shape=result.shape if shape is None else shape)
    assert before.graph is not None
    before.graph.insert_before(before, ir.Node("", op_type, inputs, attributes, outputs=[value], name=name))
    return value
