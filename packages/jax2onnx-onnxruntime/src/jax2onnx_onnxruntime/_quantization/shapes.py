"""Types and shapes of the values that quantizers to integers make, with the labels of the values that they are made from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import constant_tensor, dims_of, known, operand
from jax2onnx_graph.traversal import walk

__all__ = ["add_shapes"]

# Operators whose first result has the shape of the first operand.
_SAME = frozenset({"Cast", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
# Operators of the result and a scale or bias with no more axes.
_SCALED = frozenset({"Add", "Mul"})


def add_shapes(model: ir.Model) -> None:
    """Give types and shapes to the values of a quantised model that have none, as far as its other values tell them.

    1. What is quantised, dequantised or cast has the shape of its operand, a scale that is computed has none of axes.
    2. An integer product has the axes of its operand but the last, and the last of the weight.
    3. A constant that is given another shape has that.
    4. A result of an operand and a scale has the shape of the operand; both ways, so that a convolution has that of its result.
    """
    nodes = list(walk(model.graph))
    for node in nodes:
        _add_types(node)
        if node.op_type == "QuantizeLinear":
            _add_type_of_operand(node)
        for value, shape in _forward(node):
            _give(value, shape)
    for node in reversed(nodes):
        if node.op_type in _SAME | _SCALED and node.inputs[0] is not None:
            _give(node.inputs[0], node.outputs[0].shape)


def _give(value: ir.Value, shape: ir.Shape | None) -> None:
    if value.shape is None and shape is not None:
        value.shape = ir.Shape(list(shape))


def _forward(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Shape | None]]:
    """The results of a node with the shapes that follow from its operands."""
    first, result = node.inputs[0] if node.inputs else None, node.outputs[0]
    if first is None or node.domain:
        return
    if node.op_type in _SAME:
        yield result, first.shape
        yield from ((value, ir.Shape([])) for value in node.outputs[1:])
    elif node.op_type == "Reshape":
        constant, shape = constant_tensor(first), known(node.inputs[1])
        if constant is not None and shape is not None:  # the bias of a convolution
            yield result, ir.Shape(np.empty(constant.shape.numpy(), np.bool_).reshape(shape).shape)
    elif node.op_type == "MatMulInteger":
        left, right = dims_of(first), dims_of(node.inputs[1])
        if left and right and len(right) == 2:
            yield result, ir.Shape([*left[:-1], right[-1]])
    elif node.op_type in _SCALED:
        shapes = [operand.shape for operand in node.inputs if operand is not None]
        if shapes[0] is not None and shapes[1] is not None and constant_tensor(node.inputs[1]) is not None:
            yield result, max(shapes, key=lambda shape: len(shape or ()))


def _add_types(node: ir.Node) -> None:
    """Give the results of a node their element types."""
    types: list[ir.DataType | None] = []
    if node.op_type == "DynamicQuantizeLinear":
        types = [ir.DataType.UINT8, ir.DataType.FLOAT, ir.DataType.UINT8]
    elif node.op_type in ("MatMulInteger", "ConvInteger"):
        types = [ir.DataType.INT32]
    elif node.op_type == "Reshape":
        types = [None if node.inputs[0] is None else node.inputs[0].dtype]
    elif node.op_type == "Cast":
        types = [ir.DataType(node.attributes["to"].as_int())]
    elif node.op_type == "QuantizeLinear":
        zero = operand(node, 2)
        types = [None if zero is None else zero.dtype]
    elif node.op_type in ("DequantizeLinear", *_SCALED):
        scale = node.inputs[1]
        types = [None if scale is None else scale.dtype]
    for value, dtype in zip(node.outputs, types, strict=False):
        if value.dtype is None and dtype is not None:
            value.dtype = dtype


def _add_type_of_operand(node: ir.Node) -> None:
    """Give quantised values the element type of their scale."""
    operand, scale = node.inputs[:2]
    if operand is not None and operand.dtype is None and scale is not None and scale.dtype is not None:
        operand.dtype = scale.dtype
