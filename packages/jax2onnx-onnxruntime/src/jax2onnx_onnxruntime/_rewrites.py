"""Operators whose integer kernels are wrong or missing, written with operators whose kernels are right.

ONNX Runtime compares 64-bit integers by halves in its vectorised Max, Min, Clip, Sign, ReduceMax and ReduceMin
(wrong where the upper halves are equal and the lower ones differ in their sign bit), and sums integers in
float64, saturating at the end (ReduceSum). Numbers that fit the kernels' limits stay with them. Its optimiser reads the shape
of the first value that has the same one, though there may be no kernel for the type of that value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.facts.values import given_operands
from jax2onnx_graph.legalise.legalisation import Rewrite
from jax2onnx_graph.legalise.magnitudes import Magnitude
from jax2onnx_graph.legalise.reductions import accumulated, reduced_extreme

__all__ = ["REWRITES", "is_small_enough"]

T = ir.DataType
_INTEGERS = (T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64)


def is_small_enough(key: str, magnitude: Magnitude) -> bool:
    """Whether the kernel is right for operands of this magnitude."""
    if key == "ReduceProd":
        return magnitude.is_size
    if key in ("ReduceSum", "ReduceSumSquare", "ReduceL1"):
        return magnitude.is_size or magnitude.fits_byte
    return magnitude.fits_int32


def _pick(b: GraphBuilder, x: ir.Value, y: ir.Value, dims: Dims | None, *, larger: bool) -> ir.Value:
    """The larger or smaller of two values, element by element."""
    below = b.op("Less", *((x, y) if larger else (y, x)), dims=dims)
    return b.op("Where", below, y, x, dims=dims)


def _extreme(*, larger: bool) -> Rewrite:
    def rewrite(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value:
        first, *others = given_operands(node)
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
    (x,) = given_operands(node)
    zero = b.constant(0, like=x)
    above = b.op("Cast", b.op("Less", zero, x), to=dtype)
    below = b.op("Cast", b.op("Less", x, zero), to=dtype)
    return b.op("Sub", above, below)


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


def _shape(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value:
    """The shape of the bytes of 4-bit numbers, with an axis more, so that no 4-bit value has the same one."""
    (x,) = given_operands(node)
    column = b.op("Unsqueeze", b.cast(x, np.int8), b.constant([0], np.int64))
    start, dims = _moved(node.attributes.get_int("start", 0)), b.dims(node.outputs[0])
    if "end" not in node.attributes:
        return b.op("Shape", column, start=start, dims=dims)
    return b.op("Shape", column, start=start, end=_moved(node.attributes.get_int("end", 0)), dims=dims)


def _moved(axis: int) -> int:
    """The position of an axis behind one more; those that are counted from the end stay."""
    return axis if axis < 0 else axis + 1


#: Operators, what writes them with others, and for which element types.
REWRITES: Mapping[str, tuple[Rewrite, Sequence[ir.DataType]]] = {
    "Max": (_extreme(larger=True), (T.INT64,)),
    "Min": (_extreme(larger=False), (T.INT64,)),
    "Clip": (_clip, (T.INT64,)),
    "Sign": (_sign, (T.INT64,)),
    "ReduceMax": (reduced_extreme("ArgMax"), (T.INT64, T.UINT64)),
    "ReduceMin": (reduced_extreme("ArgMin"), (T.INT64, T.UINT64)),
    "ReduceSum": (_sum, _INTEGERS),
    "ReduceProd": (accumulated("mul"), _INTEGERS),
    "Shape": (_shape, (T.INT4, T.UINT4)),
}
