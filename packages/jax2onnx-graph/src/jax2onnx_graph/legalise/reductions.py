"""Reductions and matrix products of integers written with operators that many runtimes compute exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.legalise.legalisation import Rewrite

__all__ = ["accumulated", "reduced_extreme", "summed_products"]


def reduced_extreme(position: Literal["ArgMax", "ArgMin"]) -> Rewrite:
    """The greatest or the least number, one axis after the other: the element at the position of the extreme."""

    def rewrite(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
        value, axes = node.inputs[0], _axes(node)
        assert value is not None
        if axes is None:
            return None
        for axis in axes:
            kept = _with_one(b, value, axis)
            index = b.op(position, value, axis=axis, keepdims=1, dims=kept)
            value = b.op("GatherElements", value, index, axis=axis, dims=kept)
        return _without_axes(b, node, value, axes)

    return rewrite


def accumulated(reduction: Literal["add", "mul"]) -> Rewrite:
    """The sum or the product, one axis after the other: all elements taken into one position."""
    neutral = 0 if reduction == "add" else 1

    def rewrite(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value | None:
        value, axes = node.inputs[0], _axes(node)
        assert value is not None
        if value.shape is None or axes is None:
            return None
        rank, number = value.shape.rank(), dtype.numpy()
        for axis in axes:
            kept, shape = _with_one(b, value, axis), b.op("Shape", value)
            here = b.constant([i == axis % rank for i in range(rank)], np.bool_)
            reduced = b.op("Where", here, b.constant(1, np.int64), shape)
            start = b.op("Expand", b.constant(neutral, number), reduced, dims=kept)
            zeros = b.op("Expand", b.constant(0, np.int64), shape, dims=b.dims(value))
            value = b.op("ScatterElements", start, zeros, value, axis=axis, reduction=reduction, dims=kept)
        return _without_axes(b, node, value, axes)

    return rewrite


def summed_products(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
    """A matrix product as the sums of the products of rows and columns, all of which are there at once."""
    x, y = (value for value in node.inputs if value is not None)
    if x.shape is None or y.shape is None:
        return None
    # A vector on the right is a column, one on the left a row; of two, the first needs no axis more.
    left_out = [-1] if y.shape.rank() == 1 else [-2] if x.shape.rank() == 1 else []
    columns = b.op("Unsqueeze", y, b.ints([-1 if left_out == [-1] else -3]))
    products = b.op("Mul", b.op("Unsqueeze", x, b.ints([-1])), columns)
    dims = None if left_out else b.dims(node.outputs[0])
    total = b.op("ReduceSum", products, b.ints([-2]), keepdims=0, dims=dims)
    return b.op("Squeeze", total, b.ints(left_out), dims=b.dims(node.outputs[0])) if left_out else total


def _with_one(b: GraphBuilder, value: ir.Value, axis: int) -> Dims | None:
    """The dimensions of `value` with size 1 along `axis`."""
    dims = b.dims(value)
    return None if dims is None else tuple(1 if i == axis % len(dims) else d for i, d in enumerate(dims))


def _without_axes(b: GraphBuilder, node: ir.Node, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """`value`, in which the reduced axes have size 1, with or without these axes, as the reduction has it."""
    if axes and not node.attributes.get_int("keepdims", 1):
        return b.op("Squeeze", value, b.ints(axes))
    return value if value is not node.inputs[0] else b.op("Identity", value)


def _axes(node: ir.Node) -> list[int] | None:
    """The constant axes of a reduction; None where they are not known."""
    axes, operand = node.inputs[1] if len(node.inputs) > 1 else None, node.inputs[0]
    array = known(axes, limit=None)
    if axes is None or (array is not None and not array.size):
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return []
        return None if operand is None or operand.shape is None else list(range(operand.shape.rank()))
    return None if array is None else [int(axis) for axis in array.reshape(-1)]
