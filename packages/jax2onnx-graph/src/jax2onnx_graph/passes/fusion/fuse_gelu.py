"""Recognise `Gelu` in its formulas."""

from __future__ import annotations

__all__ = ["FuseGelu"]

import math

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation, other_operand, product, scalar

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_FACTORS = frozenset({"Mul", "Neg", "Div", "Pow"})  # what products are made of


class FuseGelu(GraphPass):
    """Where the target has `Gelu` for the element type, accurate to it, and however factors are ordered and grouped:

    1. `0.5 · x · (1 + Erf(x / √2))` is `Gelu(x)`; so is `0.5 · x · (1 - Erf(-x / √2))`.
    2. `0.5 · x · (1 + Tanh(√(2/π) · (x + 0.044715 · x³)))` is `Gelu(x)`, approximated.

    D. Hendrycks, K. Gimpel: Gaussian Error Linear Units, 2016.
    """

    produces = frozenset({"Gelu"})
    after = (EliminateCommonSubexpressions,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        reached: set[ir.Value | None] = set()  # what has a factor of the kind that is looked for
        for node in editor.nodes():
            if _is_curve(node) or (node.op_type in _FACTORS and not reached.isdisjoint(node.inputs)):
                reached.add(node.outputs[0])
            if node.op_type == "Mul" and not node.domain and node.outputs[0] in reached:
                for approximate in ("none", "tanh"):
                    x = _gelu(node, approximate)
                    if x is not None and _is_available(editor, x):
                        editor.put(node, "Gelu", [x], {"approximate": approximate})
                        break


def _is_curve(node: ir.Node) -> bool:
    """Whether the node is a sum with an Erf or a Tanh."""
    return node.op_type in ("Add", "Sub") and any(operation(v, "Erf", "Tanh") is not None for v in node.inputs)


def _is_available(editor: GraphEditor, x: ir.Value) -> bool:
    return editor.supports("Gelu", x) and editor.guarantees("Gelu", x, "accurate")


def _gelu(node: ir.Node, approximate: str) -> ir.Value | None:
    """x where the node is Gelu(x)."""
    read = product(node.outputs[0])
    if not math.isclose(read.coefficient, 0.5, rel_tol=1e-6) or sum(read.factors.values()) != 2:
        return None
    for factor in read.factors:
        argument, sign = _one_plus(factor, "Erf" if approximate == "none" else "Tanh")
        rest = read.without(factor)
        if argument is not None and rest is not None and len(rest.factors) == 1:
            (x,) = rest.factors
            if (_is_scaled if approximate == "none" else _is_cubic)(argument, x, sign):
                return x
    return None


def _one_plus(value: ir.Value, op_type: str) -> tuple[ir.Value | None, int]:
    """(v, ±1) where `value` is 1 ± op_type(v)."""
    node = operation(value, "Add", "Sub")
    if node is None:
        return None, 0
    for one in node.inputs if node.op_type == "Add" else node.inputs[:1]:
        function = operation(other_operand(node, one), op_type)
        if scalar(one) == 1 and function is not None:
            return function.inputs[0], 1 if node.op_type == "Add" else -1
    return None, 0


def _is_scaled(value: ir.Value, x: ir.Value, sign: int) -> bool:
    """Whether `value` is ±x / √2."""
    read = product(value)
    return math.isclose(read.coefficient * sign, math.sqrt(0.5), rel_tol=1e-5) and dict(read.factors) == {x: 1}


def _is_cubic(value: ir.Value, x: ir.Value, sign: int) -> bool:
    """Whether `value` is √(2/π) · (x + 0.044715 · x³), or √(2/π) · x · (1 + 0.044715 · x²)."""
    read = product(value)
    if not math.isclose(read.coefficient * sign, _SQRT_2_OVER_PI, rel_tol=1e-5):
        return False
    rest = read.without(x)
    factored = rest is not None
    sums = list((read if rest is None else rest).factors.elements())
    total = operation(sums[0], "Add") if len(sums) == 1 else None
    if total is None:
        return False
    for first in total.inputs:
        cubic = product(other_operand(total, first))
        is_first = scalar(first) == 1 if factored else first is x
        if is_first and math.isclose(cubic.coefficient, _CUBIC, rel_tol=1e-4):
            return dict(cubic.factors) == {x: 2 if factored else 3}
    return False
