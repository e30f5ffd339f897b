"""Operators whose integer kernels are wrong for some numbers, written with operators whose kernels are right.

ONNX Runtime compares 64-bit integers by halves in its vectorised Max, Min, Clip, Sign, ReduceMax and ReduceMin
(wrong where the upper halves are equal and the lower ones differ in their sign bit), and sums integers in
float64, saturating at the end (ReduceSum). Numbers that fit the kernels' limits stay with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.values import constant_tensor

from jax2onnx_onnxruntime.magnitudes import Magnitude

__all__ = ["Rewrite", "find_rewrite", "is_small_enough"]

T = ir.DataType
_INTEGERS = (T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64)

#: Writes what a node computes with other operators; None where too little is known about the node. The same operator
#: among them is meant for the kernel as it is.
Rewrite = Callable[[GraphBuilder, ir.Node, ir.DataType], ir.Value | None]


def find_rewrite(key: str, dtype: ir.DataType) -> Rewrite | None:
    """The rewrite for an operator on an element type, or None."""
    rewrite, dtypes = _REWRITES.get(key, (None, ()))
    return rewrite if dtype in dtypes else None


def is_small_enough(key: str, magnitude: Magnitude) -> bool:
    """Whether the kernel is right for operands of this magnitude."""
    if key == "ReduceProd":
        return magnitude.is_size
    if key in ("ReduceSum", "ReduceSumSquare", "ReduceL1"):
        return magnitude.is_size or magnitude.fits_byte
    return magnitude.fits_int32


def _operands(node: ir.Node) -> list[ir.Value]:
    return [value for value in node.inputs if value is not None]


def _pick(b: GraphBuilder, x: ir.Value, y: ir.Value, dims: Dims | None, *, larger: bool) -> ir.Value:
    """The larger or smaller of two values, element by element."""
    below = b.op("Less", *((x, y) if larger else (y, x)), dims=dims)
    return b.op("Where", below, y, x, dims=dims)


def _extreme(*, larger: bool) -> Rewrite:
    def rewrite(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value:
        first, *others = _operands(node)
        if not others:
            return b.op("Identity", first)
        for other in others:
            # What several operands of different shapes broadcast to is the shape of the result only at the end.
            dims = b.dims(node.outputs[0]) if len(others) == 1 else None
            first = _pick(b, first, other, dims, larger=larger)
        return first

    return rewrite


def _clip(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value:
    bounds: Sequence[ir.Value | None] = [*node.inputs[1:], None, None]
    value = node.inputs[0]
    assert value is not None
    for bound, larger in ((bounds[0], True), (bounds[1], False)):
        if bound is not None:
            value = _pick(b, value, bound, b.dims(value), larger=larger)
    return value if value is not node.inputs[0] else b.op("Identity", value)


def _sign(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    (x,) = _operands(node)
    zero = b.constant(0, like=x)
    above = b.op("Cast", b.op("Less", zero, x), to=dtype)
    below = b.op("Cast", b.op("Less", x, zero), to=dtype)
    return b.op("Sub", above, below)


def _reduced_extreme(position: str) -> Rewrite:
    """One axis after the other: the element at the position of the extreme."""

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


def _with_one(b: GraphBuilder, value: ir.Value, axis: int) -> Dims | None:
    """The dimensions that `value` has when one place along `axis` is left."""
    dims = b.dims(value)
    return None if dims is None else tuple(1 if i == axis % len(dims) else d for i, d in enumerate(dims))


def _without_axes(b: GraphBuilder, node: ir.Node, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """The result of a reduction whose axes have size 1 in `value`."""
    if axes and not node.attributes.get_int("keepdims", 1):
        return b.op("Squeeze", value, b.ints(axes))
    return value if value is not node.inputs[0] else b.op("Identity", value)


def _axes(node: ir.Node) -> list[int] | None:
    """The constant axes of a reduction; None where they are not known."""
    axes, operand = node.inputs[1] if len(node.inputs) > 1 else None, node.inputs[0]
    if axes is None:
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return []
        return None if operand is None or operand.shape is None else list(range(operand.shape.rank()))
    tensor = constant_tensor(axes)
    return None if tensor is None else [int(axis) for axis in tensor.numpy().reshape(-1)]


def _sum(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value:
    """Exact for up to 2²¹ summands of 32 bits each, as the kernel sums in float64.

    64-bit numbers are summed as two halves.
    """
    keepdims, noop = node.attributes.get_int("keepdims", 1), node.attributes.get_int("noop_with_empty_axes", 0)
    x, axes, dims = node.inputs[0], node.inputs[1:], b.dims(node.outputs[0])

    def total(value: ir.Value) -> ir.Value:
        return b.op("ReduceSum", value, *axes, keepdims=keepdims, noop_with_empty_axes=noop, dims=dims)

    assert x is not None
    x = b.cast(x, np.int64)
    if dtype not in (T.INT64, T.UINT64):
        return b.op("Cast", total(x), to=dtype)
    lower = b.op("BitwiseAnd", x, b.constant(0xFFFFFFFF, np.int64))
    half = b.constant(1 << 32, np.int64)
    upper = b.op("Div", b.op("Sub", x, lower), half)
    shifted = b.op("Mul", total(upper), half)
    return b.cast(b.op("Add", shifted, total(lower)), dtype.numpy())


def _product(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value | None:
    """One axis after the other: all elements multiplied into one position."""
    value, axes = node.inputs[0], _axes(node)
    assert value is not None
    if value.shape is None or axes is None:
        return None
    rank, number = value.shape.rank(), dtype.numpy()
    for axis in axes:
        shape = b.op("Shape", value)
        here = b.constant([i == axis % rank for i in range(rank)], np.bool_)
        reduced = b.op("Where", here, b.constant(1, np.int64), shape)
        ones = b.op("Expand", b.constant(1, number), reduced)
        zeros = b.op("Expand", b.constant(0, np.int64), shape)
        value = b.op("ScatterElements", ones, zeros, value, axis=axis, reduction="mul")
    return _without_axes(b, node, value, axes)


_REWRITES: dict[str, tuple[Rewrite, tuple[ir.DataType, ...]]] = {
    "Max": (_extreme(larger=True), (T.INT64,)),
    "Min": (_extreme(larger=False), (T.INT64,)),
    "Clip": (_clip, (T.INT64,)),
    "Sign": (_sign, (T.INT64,)),
    "ReduceMax": (_reduced_extreme("ArgMax"), (T.INT64, T.UINT64)),
    "ReduceMin": (_reduced_extreme("ArgMin"), (T.INT64, T.UINT64)),
    "ReduceSum": (_sum, _INTEGERS),
    "ReduceProd": (_product, _INTEGERS),
}
