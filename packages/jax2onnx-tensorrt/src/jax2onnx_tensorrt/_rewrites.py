"""Operators that TensorRT lacks, at some element types or altogether, written with operators that it has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.operators import REDUCTIONS
from jax2onnx_graph.facts.values import dims_of, given_operands, known
from jax2onnx_graph.legalise.legalisation import Rewrite
from jax2onnx_graph.legalise.reductions import summed_products

__all__ = ["REWRITES"]

T = ir.DataType


def _equal(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value:
    """Two booleans are equal where they do not differ."""
    dims = b.dims(node.outputs[0])
    return b.op("Not", b.op("Xor", *node.inputs, dims=dims), dims=dims)


def _bitwise_not(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value:
    """The complement in two's complement: -1 - x."""
    (x,) = given_operands(node)
    return b.op("Sub", b.constant(-1, like=x), x, dims=b.dims(node.outputs[0]))


def _clip(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value:
    """The greater of the number and the lower bound, and the less of that and the upper one."""
    x, low, high = (*node.inputs, None, None)[:3]
    assert x is not None
    dims = b.dims(node.outputs[0])
    for operator, bound in (("Max", low), ("Min", high)):
        x = x if bound is None else b.op(operator, x, bound, dims=dims)
    return b.op("Identity", x, dims=dims)


def _cumulative_sum(b: GraphBuilder, node: ir.Node, _: ir.DataType) -> ir.Value | None:
    """The sums of the elements up to each, all of which are there at once."""
    x, given = given_operands(node)
    dims, axis = dims_of(x), known(given)
    if dims is None or axis is None:
        return None
    place = axis.item() % len(dims)
    size = b.op("Squeeze", b.op("Shape", x, start=place, end=place + 1), b.ints([0]))
    places = b.op("Range", b.constant(0, np.int64), size, b.constant(1, np.int64))
    summed, upto = b.op("Unsqueeze", places, b.ints([0])), b.op("Unsqueeze", places, b.ints([1]))
    if node.attributes.get_int("reverse", 0):
        summed, upto = upto, summed
    counts = b.op("Less" if node.attributes.get_int("exclusive", 0) else "LessOrEqual", summed, upto)
    behind = len(dims) - place - 1
    if behind:
        counts = b.op("Unsqueeze", counts, b.ints(range(2, 2 + behind)))
    kept = b.op("Where", counts, b.op("Unsqueeze", x, b.ints([place])), b.constant(0, like=x))
    return b.op("ReduceSum", kept, b.ints([place + 1]), keepdims=0, dims=b.dims(node.outputs[0]))


def _scatter_elements(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value | None:
    """Each place with the updates whose index is its own; None where the indices leave out a part of the other axes."""
    data, indices, updates = given_operands(node)
    dims, given = b.dims(data), b.dims(indices)
    if dims is None or given is None:
        return None
    axis = node.attributes.get_int("axis", 0) % len(dims)
    if any(i != axis and one != other for i, (one, other) in enumerate(zip(dims, given, strict=True))):
        return None
    size = b.op("Shape", data, start=axis, end=axis + 1)
    indices = b.op("Cast", indices, to=int(T.INT64)) if indices.dtype != T.INT64 else indices
    places = b.op("Where", b.op("Less", indices, b.constant(0, np.int64)), b.op("Add", indices, size), indices)
    found = _accumulated(
        b, (data, places, updates), len(dims), axis, node.attributes.get_string("reduction", "none"), dtype
    )
    found.shape = node.outputs[0].shape
    return found


def _scatter_nd(b: GraphBuilder, node: ir.Node, dtype: ir.DataType) -> ir.Value | None:
    """Each row of a matrix with the updates whose index is its own: the axes that are indexed become one, and so do the others."""
    data, indices, updates = given_operands(node)
    depth, rank = (dims_of(indices) or (None,))[-1], len(dims_of(data) or ())
    if not isinstance(depth, int) or not rank or depth == 0:
        return None
    rows, size = _product(b, data, 0, depth), _product(b, data, depth, rank)
    count = _product(b, indices, 0, len(dims_of(indices) or ()) - 1)
    row = b.op("Reshape", _row(b, data, indices, depth), b.op("Concat", count, b.ints([1]), axis=0))
    matrix = b.op("Reshape", data, b.op("Concat", rows, size, axis=0))
    updates = b.op("Reshape", updates, b.op("Concat", count, size, axis=0))
    found = _accumulated(b, (matrix, row, updates), 2, 0, node.attributes.get_string("reduction", "none"), dtype)
    return b.op("Reshape", found, b.op("Shape", data), dims=b.dims(node.outputs[0]))


def _accumulated(
    b: GraphBuilder,
    operands: tuple[ir.Value, ir.Value, ir.Value],
    rank: int,
    axis: int,
    reduction: str,
    dtype: ir.DataType,
) -> ir.Value:
    """The data with the updates taken in: all updates for all places at once, of which the others count for nothing."""
    data, places, updates = operands
    size = b.op("Squeeze", b.op("Shape", data, start=axis, end=axis + 1), b.ints([0]))
    every = b.op("Range", b.constant(0, np.int64), size, b.constant(1, np.int64))
    every = b.op("Unsqueeze", every, b.ints(range(1, rank - axis + 1)))
    hit = b.op("Equal", b.op("Unsqueeze", places, b.ints([axis])), every)
    join, reduce = _REDUCTIONS[reduction]
    counted = b.op("Where", hit, b.op("Unsqueeze", updates, b.ints([axis])), _neutral(b, reduction, dtype))
    return b.op(join, data, b.op(reduce, counted, b.ints([axis + 1]), keepdims=0))


_REDUCTIONS = {
    "add": ("Add", "ReduceSum"),
    "mul": ("Mul", "ReduceProd"),
    "max": ("Max", "ReduceMax"),
    "min": ("Min", "ReduceMin"),
}


def _neutral(b: GraphBuilder, reduction: str, dtype: ir.DataType) -> ir.Value:
    """The number that counts for nothing in a reduction."""
    number = dtype.numpy()
    if reduction in ("add", "mul"):
        return b.constant(int(reduction == "mul"), number)
    if dtype.is_floating_point():
        return b.constant(-np.inf if reduction == "max" else np.inf, number)
    info = np.iinfo(number)
    return b.constant(info.min if reduction == "max" else info.max, number)


def _row(b: GraphBuilder, data: ir.Value, indices: ir.Value, depth: int) -> ir.Value:
    """The number of the row that each index stands for; an index below zero counts from the end."""
    sizes = b.op("Shape", data, end=depth)
    places = b.op("Where", b.op("Less", indices, b.constant(0, np.int64)), b.op("Add", indices, sizes), indices)
    row = b.op("Gather", places, b.constant(0, np.int64), axis=-1)
    for axis in range(1, depth):
        size = b.op("Gather", sizes, b.constant(axis, np.int64))
        row = b.op("Add", b.op("Mul", row, size), b.op("Gather", places, b.constant(axis, np.int64), axis=-1))
    return row


def _product(b: GraphBuilder, value: ir.Value, start: int, end: int) -> ir.Value:
    """The number of elements along some axes, as a vector of one number."""
    dims = (dims_of(value) or ())[start:end]
    sizes = [size for size in dims if isinstance(size, int)]
    if len(sizes) == len(dims):
        return b.ints([math.prod(sizes)])
    return b.op("ReduceProd", b.op("Shape", value, start=start, end=end), b.ints([0]), keepdims=1)


_INTEGERS = (T.INT32, T.INT64)
_NUMBERS = (*_INTEGERS, T.FLOAT, T.FLOAT16, T.BFLOAT16)

#: Operators, what writes them with others, and for which element types.
REWRITES: Mapping[str, tuple[Rewrite, Sequence[ir.DataType]]] = {
    "BitwiseNot": (_bitwise_not, _INTEGERS),
    "Clip": (_clip, _INTEGERS),
    "CumSum": (_cumulative_sum, _INTEGERS),
    "Equal": (_equal, (T.BOOL,)),
    "MatMul": (summed_products, _INTEGERS),
    **dict.fromkeys((f"ScatterElements_{reduction}" for reduction in REDUCTIONS), (_scatter_elements, _NUMBERS)),
    **dict.fromkeys((f"ScatterND_{reduction}" for reduction in REDUCTIONS), (_scatter_nd, _NUMBERS)),
}  # fmt: skip
