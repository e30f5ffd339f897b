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

_LONGEST = 46340
"""Its square is a number of int32."""


class StableSortsPass(GraphPass):
    """Let a TopK whose indices are read take the first of equal elements first.

    1. One element: that of ArgMax or ArgMin.
    2. Several: the least of the numbers that an element's rank among the sorted ones and its index form, which all differ. Axes that
       are too long for such numbers are left as they are.
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
    """Rule 2."""
    length = b.op("Slice", b.op("Shape", x), b.ints([axis]), b.ints([axis + 1]), dims=[1])
    ranks = _ranks(b, x, dims, length, axis, largest=node.attributes.get_int("largest", 1))
    number = b.op("Squeeze", b.cast(length, np.int32), b.ints([0]))
    zero, one = b.constant(0, np.int32), b.constant(1, np.int32)
    places = b.op("Range", zero, number, one, dims=labelled(dims[axis : axis + 1]))
    fits = b.op("LessOrEqual", number, b.constant(_LONGEST, np.int32))
    factor, places = b.op("Where", fits, number, one), b.op("Mul", places, b.cast(fits, np.int32))
    after = list(range(1, len(dims) - axis))
    places = b.op("Unsqueeze", places, b.ints(after)) if after else places
    keys = b.op("Add", b.op("Mul", ranks, factor), places, dims=labelled(dims))
    return b.op.several("TopK", keys, node.inputs[1], axis=axis, largest=0, outputs=2)[1]


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
