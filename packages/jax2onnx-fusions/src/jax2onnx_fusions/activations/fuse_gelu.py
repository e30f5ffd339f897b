"""`FuseGelu`: formulas of gelu, with Erf or with Tanh, become `Gelu`."""

from __future__ import annotations

__all__ = ["FuseGelu"]

import dataclasses
import math
from collections.abc import Iterator
from typing import Literal

from jax2onnx_graph import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, other_operand, product, scalar

from jax2onnx_fusions._reasons import no_operator

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_MAKE_PRODUCTS = frozenset({"Mul", "Neg", "Div"})
_LONGEST = 6  # nodes from the curve to the end of the product, as `product` takes it apart


@dataclasses.dataclass(frozen=True)
class _Gelu:
    """A product that is the gelu of `x`.

    Attributes:
      product: the last node of the formula.
      x: the argument.
      approximate: the attribute of the operator.
    """

    product: ir.Node
    x: ir.Value
    approximate: Literal["none", "tanh"]


class FuseGelu(NodePass[_Gelu]):
    """Fuse the formulas of GELU, however factors are ordered and grouped, where the target has an accurate `Gelu` for the element type.

    1. `0.5 · x · (1 + Erf(x / √2))` is `Gelu(x)`; so is `0.5 · x · (1 - Erf(-x / √2))`.
    2. `0.5 · x · (1 + Tanh(√(2/π) · (x + 0.044715 · x³)))` is `Gelu(x)`, approximated.

    The formula is followed from its curve, of which a graph has few, to the product at its end.

    D. Hendrycks, K. Gimpel: Gaussian Error Linear Units, 2016.
    """

    phase = Phase.FUSE
    produces = frozenset({"Gelu"})
    operators = frozenset({"Erf", "Tanh"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Gelu | Declined | None:
        declined = None
        for curve, sign in _one_plus(node):
            for end in _products(curve, node.graph, _LONGEST):
                x = _other_factor(end, curve)
                if x is None:
                    continue
                found = _gelu(node, sign, end, x, editor)
                if isinstance(found, _Gelu):
                    return found
                declined = declined or found
        return declined

    def rewrite(self, node: ir.Node, match: _Gelu, editor: GraphEditor) -> None:
        editor.put(match.product, "Gelu", [match.x], {"approximate": match.approximate})


def _one_plus(curve: ir.Node) -> Iterator[tuple[ir.Value, int]]:
    """The results 1 + v and 1 - v, with the sign of v, where v is the result of `curve`."""
    value = curve.outputs[0]
    for node, _ in value.uses():
        if node.op_type not in ("Add", "Sub") or node.domain or node.graph is not curve.graph:
            continue
        one = other_operand(node, value) if node.op_type == "Add" else node.inputs[0]
        if scalar(one) == 1:
            yield node.outputs[0], 1 if node.op_type == "Add" else -1


def _products(value: ir.Value, graph: ir.Graph | ir.Function | None, depth: int) -> Iterator[ir.Node]:
    """The multiplications of `graph` in whose product `value` is a factor, at most `depth` nodes after it, the nearest first."""
    for node, _ in value.uses() if depth else ():
        if node.op_type in _MAKE_PRODUCTS and not node.domain and node.graph is graph:
            if node.op_type == "Mul":
                yield node
            yield from _products(node.outputs[0], graph, depth - 1)


def _other_factor(node: ir.Node, curve: ir.Value) -> ir.Value | None:
    """x where the result of `node` is 0.5 · x · curve."""
    found = product(node.outputs[0])
    rest = found.without(curve)
    if rest is None or not math.isclose(found.coefficient, 0.5, rel_tol=1e-6) or sum(rest.factors.values()) != 1:
        return None
    return next(iter(rest.factors))


def _gelu(curve: ir.Node, sign: int, end: ir.Node, x: ir.Value, editor: GraphEditor) -> _Gelu | Declined:
    """The gelu that ends with the product `end` of 0.5, x and 1 ± the result of `curve`."""
    argument = curve.inputs[0]
    if curve.op_type == "Erf" and not _is_scaled(argument, x, sign):
        return Declined("the argument of Erf is not x / √2, x being the other factor", end)
    if curve.op_type == "Tanh" and not _is_cubic(argument, x, sign):
        return Declined("the argument of Tanh is not √(2/π) · (x + 0.044715 · x³), x being the other factor", end)
    if not editor.supports("Gelu", x):
        return Declined(no_operator("Gelu", x), end)
    if not editor.guarantees("Gelu", x, "accurate"):
        return Declined("the target's Gelu is less accurate than the element type", end)
    return _Gelu(end, x, "none" if curve.op_type == "Erf" else "tanh")


def _is_scaled(value: ir.Value | None, x: ir.Value, sign: int) -> bool:
    """Whether `value` is ±x / √2."""
    found = product(value)
    return math.isclose(found.coefficient * sign, math.sqrt(0.5), rel_tol=1e-5) and dict(found.factors) == {x: 1}


def _is_cubic(value: ir.Value | None, x: ir.Value, sign: int) -> bool:
    """Whether `value` is √(2/π) · (x + 0.044715 · x³), or √(2/π) · x · (1 + 0.044715 · x²)."""
    found = product(value)
    if not math.isclose(found.coefficient * sign, _SQRT_2_OVER_PI, rel_tol=1e-5):
        return False
    rest = found.without(x)
    factored = rest is not None
    sums = list((found if rest is None else rest).factors.elements())
    total = operation(sums[0], "Add") if len(sums) == 1 else None
    if total is None:
        return False
    for first in total.inputs:
        cubic = product(other_operand(total, first))
        is_first = scalar(first) == 1 if factored else first is x
        if is_first and math.isclose(cubic.coefficient, _CUBIC, rel_tol=1e-4):
            return dict(cubic.factors) == {x: 2 if factored else 3}
    return False
