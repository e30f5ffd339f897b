"""TopK in the order that ONNX wants; OpenVINO's CPU plugin puts equal elements in any order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.traversal import is_value_read

__all__ = ["StableSortsPass"]

_LARGEST = 2**31 - 1
_SHORT, _LONGEST = 46340, 1664510
"""The square and the third power: a number of int32, and one of twice as many bits."""


class StableSortsPass(GraphPass):
    """Let a TopK whose indices are read take the first of equal elements first.

    1. One element: that of ArgMax or ArgMin.
    2. Several: the least of the numbers that an element's rank among the sorted ones and its index form, which all differ.
    3. Where these would not fit int32, elements are sorted by the lower digit of their ranks first, and what comes of it by the upper
       one. Of more than 1,664,510 elements, for which two digits are not enough, equal ones stay in any order.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type != "TopK" or not is_value_read(node.outputs[1]):
                continue
            x, dims, axis = node.inputs[0], dims_of(node.inputs[0]), node.attributes.get_int("axis", -1)
            if x is None or dims is None or (isinstance(size := dims[axis], int) and not 1 < size <= _LONGEST):
                continue
            b, (values, indices) = editor.before(node), node.outputs
            first = _first(b, node, x, axis) if _is_one(node.inputs[1]) else _least(b, node, x, dims, axis % len(dims))
            first.shape = indices.shape
            if is_value_read(values):
                taken = b.op("GatherElements", x, first, axis=axis, dims=b.dims(values))
                editor.reroute(values, _always(taken))
            editor.reroute(indices, _always(first))
            editor.discard(node)


def _always(result: ir.Value) -> Callable[[ir.Value], ir.Value]:
    return lambda _: result


def _is_one(count: ir.Value | None) -> bool:
    array = known(count)
    return array is not None and array.size == 1 and array.item() == 1


def _first(b: GraphBuilder, node: ir.Node, x: ir.Value, axis: int) -> ir.Value:
    """Rule 1."""
    operator = "ArgMax" if node.attributes.get_int("largest", 1) else "ArgMin"
    return b.op(operator, x, axis=axis, keepdims=1)


def _least(b: GraphBuilder, node: ir.Node, x: ir.Value, dims: tuple[LabelledDim, ...], axis: int) -> ir.Value:
    """Rules 2 and 3."""
    length = b.op("Slice", b.op("Shape", x), b.ints([axis]), b.ints([axis + 1]), dims=[1])
    ranks = _ranks(b, x, dims, length, axis, largest=node.attributes.get_int("largest", 1))
    number = b.op("Squeeze", b.cast(length, np.int32), b.ints([0]))
    places = b.op(
        "Range", b.constant(0, np.int32), number, b.constant(1, np.int32), dims=labelled(dims[axis : axis + 1])
    )
    after = list(range(1, len(dims) - axis))
    places = b.op("Unsqueeze", places, b.ints(after)) if after else places

    def sorted_by(digit: ir.Value, factor: ir.Value, rest: ir.Value, count: ir.Value | None) -> ir.Value:
        keys = b.op("Add", b.op("Mul", digit, factor), rest, dims=labelled(dims))
        return b.op.several("TopK", keys, count, axis=axis, largest=0, outputs=2)[1]

    if isinstance(size := dims[axis], int) and size <= _SHORT:
        return sorted_by(ranks, number, places, node.inputs[1])
    fits = b.op("LessOrEqual", number, b.constant(_LONGEST, np.int32))
    base = b.op("Where", fits, b.op("Div", b.constant(_LARGEST, np.int32), number), number)
    upper = b.op("Div", ranks, base, dims=labelled(dims))
    lower = b.op("Sub", ranks, b.op("Mul", upper, base, dims=labelled(dims)), dims=labelled(dims))
    factor = b.op("Where", fits, number, b.constant(1, np.int32))
    first = sorted_by(lower, factor, b.op("Mul", places, b.cast(fits, np.int32)), length)
    second = sorted_by(
        b.op("GatherElements", upper, first, axis=axis, dims=labelled(dims)), number, places, node.inputs[1]
    )
    return b.op("GatherElements", first, second, axis=axis)


def _ranks(
    b: GraphBuilder, x: ir.Value, dims: tuple[LabelledDim, ...], length: ir.Value, axis: int, *, largest: int
) -> ir.Value:
    """The number of different elements that come before each along an axis, as int32."""
    whole, but_one = labelled(dims), labelled([_less_one(d) if i == axis else d for i, d in enumerate(dims)])
    values, places = b.op.several("TopK", x, length, axis=axis, largest=largest, outputs=2, dims=whole)
    places.shape = values.shape
    left = b.op("Slice", values, b.ints([0]), b.ints([-1]), b.ints([axis]), dims=but_one)
    right = b.op("Slice", values, b.ints([1]), b.ints([np.iinfo(np.int32).max]), b.ints([axis]), dims=but_one)
    differs = b.cast(b.op("Not", b.op("Equal", left, right)), np.int32)
    counts = b.op("CumSum", differs, b.constant(axis, np.int64))
    before = [int(i == axis) for i in range(len(dims))]
    counts = b.op("Pad", counts, b.ints(before + [0] * len(dims)), dims=whole)
    zeros = b.op("Expand", b.constant(0, np.int32), b.op("Shape", x), dims=whole)
    return b.op("ScatterElements", zeros, places, counts, axis=axis, dims=whole)


def _less_one(dim: LabelledDim) -> LabelledDim:
    if isinstance(dim, int):
        return dim - 1
    return ir.SymbolicDim(None if dim.value is None else f"{dim.value} - 1")
