"""Scalars which ONNX Runtime's graph optimiser would fuse into float32 attributes, written so that it does not.

Seen in 1.31 and 1.32. The factor of a matrix product becomes the `alpha` of a FusedMatMul, and several factors one: with doubles
the result has the precision of float32, and a product of factors beyond float32 becomes zero, infinite or an error when
the model is loaded. The epsilon of a norm that squares by Pow becomes an attribute likewise. A Relu before a Clip of any
type but float and float16 is an error when the model is loaded. A product by 1 / x becomes a quotient by x, without the
axes that the 1 adds.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation, other_operand, scalar
from jax2onnx_graph.traversal import is_value_read

__all__ = ["ScalarFusionsPass"]

_EXPONENT = 32
"""Factors may stay up to a product of 2³²: three such products meet in one `alpha`, those of both operands and of the result."""

_STEPS = 8
"""The number of operators between a factor and its product that are looked through."""


class ScalarFusionsPass(GraphPass):
    """Keep the scalars of doubles, and factors that are very large or small, away from fusions.

    1. `Mul` or `Div` of a product by a number c becomes that of `Neg(product)` by -c; the product may be a MatMul that
       was scaled before.
    2. `Mul` or `Div` by a number c that a MatMul reads, directly or through Transpose, Cast or other factors, becomes
       the `Neg` of that by -c.
    3. In both, powers of two stay, and in float32 all numbers, unless they are very large or small, or would meet in such a number.
    4. `Pow(x, 2)` of doubles becomes `Mul(x, x)`.
    5. `Clip(Relu(x), low, high)` of types that the fusion does not know becomes `Clip(x, Max(low, 0), high)`.
    6. `Mul` of a convolution by factors c that are infinite, NaN or very large becomes that of `Neg(convolution)` by -c: infinite
       weights would meet in its sums.
    7. `Div(1, x)` with more axes in the constant than `x` has, which a Mul reads, becomes `Div(1, Unsqueeze(x))`.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        exponents: dict[ir.Value | None, int] = {}
        for node in list(editor.nodes()):
            if node.domain:
                continue
            if node.op_type in ("Transpose", "Cast"):
                exponents[node.outputs[0]] = exponents.get(node.inputs[0], 0)
            elif node.op_type in ("Mul", "Div"):
                _protect_factor(editor, node, exponents)
                _protect_convolution(editor, node)
                _protect_axes(editor, node)
            elif node.op_type == "Pow" and node.outputs[0].dtype == ir.DataType.DOUBLE and scalar(node.inputs[1]) == 2:
                editor.put(node, "Mul", [node.inputs[0], node.inputs[0]])
            elif node.op_type == "Clip":
                _absorb_relu(editor, node)


def _protect_factor(editor: GraphEditor, node: ir.Node, exponents: dict[ir.Value | None, int]) -> None:
    """Rules 1 to 3 for a Mul or Div; `exponents` has the sum of those of the factors behind a value."""
    place = _place_of_number(node)
    number = None if place is None else _number(node.inputs[place])
    if place is None or number is None:
        return
    operands, result, factor = list(node.inputs), node.outputs[0], float(number.item())
    exponents[result] = exponents.get(operands[1 - place], 0) + abs(math.frexp(factor)[1])
    if exponents[result] <= _EXPONENT and _is_harmless(factor, result.dtype):
        return
    scales_product, is_multiplied = _is_product(operands[1 - place]), _feeds_product(node.outputs[0])
    if not scales_product and not is_multiplied:
        return
    builder = editor.before(node)
    if scales_product:
        operands[1 - place] = builder.op("Neg", operands[1 - place])
    if scales_product is not is_multiplied:
        operands[place] = editor.constant(-number)
    if is_multiplied:
        editor.put(node, "Neg", [builder.op(node.op_type, *operands)])
    else:
        editor.put(node, node.op_type, operands)


def _protect_convolution(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 6 for a Mul."""
    for operand in node.inputs if node.op_type == "Mul" else ():
        factors = known(other_operand(node, operand), limit=None)
        if operation(operand, "Conv") is None or factors is None:
            continue
        if not (np.abs(factors.astype(np.float64)) < 2.0**_EXPONENT).all():
            editor.put(node, "Mul", [editor.before(node).op("Neg", operand), editor.constant(-factors)])
            return


def _protect_axes(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 7 for a Mul."""
    for quotient in [operation(operand, "Div") for operand in node.inputs] if node.op_type == "Mul" else ():
        one, x = quotient.inputs if quotient is not None else (None, None)
        number = _number(one)
        if (
            quotient is None
            or quotient.graph is not node.graph
            or number is None
            or number != 1
            or x is None
            or x.shape is None
        ):
            continue
        added = number.ndim - len(x.shape)
        if added > 0:
            axes = editor.constant(np.arange(added))
            operands = [editor.constant(number.reshape(())), editor.before(quotient).op("Unsqueeze", x, axes)]
            editor.put(quotient, "Div", operands)


def _number(value: ir.Value | None) -> np.ndarray | None:
    """The array of one element that `value` always is."""
    array = known(value, limit=1)
    return array if array is not None and array.size == 1 else None


def _place_of_number(node: ir.Node) -> int | None:
    """The index of the operand of a Mul or Div that is a number and scales the other one."""
    places = (1,) if node.op_type == "Div" else (0, 1)
    return next((place for place in places if _number(node.inputs[place]) is not None), None)


def _is_harmless(factor: float, dtype: ir.DataType | None) -> bool:
    """Rule 3, of a moderate factor or of its reciprocal."""
    is_number = math.isfinite(factor) and factor != 0
    return is_number and (math.frexp(abs(factor))[0] == 0.5 or dtype != ir.DataType.DOUBLE)


def _is_product(value: ir.Value | None) -> bool:
    """Whether `value` is a MatMul, perhaps scaled."""
    for _ in range(_STEPS):
        node = operation(value, "MatMul", "Mul", "Div")
        if node is None or node.op_type == "MatMul":
            return node is not None
        place = _place_of_number(node)
        if place is None:
            return False
        value = node.inputs[1 - place]
    return False


def _feeds_product(value: ir.Value, steps: int = _STEPS) -> bool:
    """Whether a MatMul reads `value`, perhaps scaled, cast or transposed."""
    readers = {reader for reader, _ in value.uses() if not reader.domain}
    if any(reader.op_type == "MatMul" for reader in readers):
        return True
    passed = (reader for reader in readers if _is_looked_through(reader))
    return steps > 0 and any(_feeds_product(reader.outputs[0], steps - 1) for reader in passed)


def _is_looked_through(node: ir.Node) -> bool:
    if node.op_type in ("Mul", "Div"):
        return _place_of_number(node) is not None
    return node.op_type in ("Transpose", "Cast")


def _absorb_relu(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 5 for a Clip."""
    relu = operation(node.inputs[0], "Relu")
    low = _number(node.inputs[1]) if len(node.inputs) > 1 else None
    if relu is None or low is None or node.outputs[0].dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return
    editor.put(node, "Clip", [relu.inputs[0], editor.constant(np.maximum(low, 0)), *node.inputs[2:]])
    if not is_value_read(relu.outputs[0]) and relu.graph is editor.graph:
        editor.discard(relu)
