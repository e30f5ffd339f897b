"""Sums of many float32 numbers, of which ONNX Runtime's kernels lose digits.

They add to one number after another for each column, and for rows and squares for each of few lanes. Of 200,000 positive numbers the sum is
off by 2e-5, of 4,000,000 squares by 2e-4; of 16,000 equal numbers by 1e-4 in a column and 2e-5 in a row, of 260,000 equal products of two
vectors by 5e-4 (seen in 1.32), where XLA is off by 1e-7. Sums of sums are off by less than 1e-6, and take half the time for long columns,
a quarter for vectors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import onnx_ir as ir
from jax2onnx_graph.facts.axes import reduced_axes
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass

__all__ = ["LongSumsPass"]

# From so many numbers on; of rows and whole tensors kernels sum several parts.
_COLUMN, _ROW = 1 << 12, 1 << 15


@dataclasses.dataclass(frozen=True)
class _Parts:
    """The sums of parts, which are to be summed.

    Attributes:
      dims: the operand as it is summed first, reshaped where one of its axes is divided.
      axes: the axes of the first sums.
      shape: that for Reshape, where an axis is divided.
      longest: the greater number of summands of the first sums and of that of them.
    """

    dims: Sequence[LabelledDim]
    axes: Sequence[int]
    shape: Sequence[int] | None
    longest: int


class LongSumsPass(NodePass[_Parts]):
    """Sum many float32 numbers in two steps.

    1. `ReduceSum(x)` and `ReduceMean(x)` of as many numbers as kernels lose digits of become that of `ReduceSum(x)` or `ReduceMean(x)`
       over some of the axes, or over a part of one that Reshape divides; whichever makes the longer of both sums shortest.
    2. `ReduceSumSquare(x)` becomes `ReduceSum` of such a `ReduceSumSquare(x)`.
    3. `MatMul(x, y)` of two vectors becomes such a sum of `Mul(x, y)`, which takes less time too.
    """

    operators = frozenset({"MatMul", "ReduceSum", "ReduceMean", "ReduceSumSquare"})
    forms = "Long sums in two steps"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Parts | Declined | None:
        dims, axes = dims_of(node.inputs[0]), [0] if _is_of_vectors(node) else reduced_axes(node)
        if dims is None or axes is None or node.outputs[0].dtype != ir.DataType.FLOAT:
            return None
        sizes = {axis: size for axis in axes if isinstance(size := dims[axis], int)}
        count = math.prod(sizes.values())
        is_row = len(dims) - 1 in axes and node.op_type != "MatMul"
        if count < (_ROW if is_row else _COLUMN) or 0 in dims:
            return None
        if len(sizes) < len(axes):
            return Declined("an axis that is summed is symbolic", node)
        parts = min(_parts(dims, sizes), key=lambda one: one.longest, default=None)
        return parts if parts is not None and 2 * parts.longest <= count else Declined("it cannot be divided", node)

    def rewrite(self, node: ir.Node, match: _Parts, editor: GraphEditor) -> None:
        value, builder, dims = node.inputs[0], editor.before(node), list(match.dims)
        operator, given, keepdims = node.op_type, node.inputs[1:], node.attributes.get_int("keepdims", 1)
        if operator == "MatMul":
            value, operator, given, keepdims = builder.op.Mul(*node.inputs), "ReduceSum", (), 0
        if match.shape is not None:
            value = builder.op.Reshape(value, builder.ints(match.shape), dims=labelled(dims))
        for axis in sorted(match.axes, reverse=True):
            dims[axis : axis + 1] = [1] if match.shape is None else []
        axes, keeps = builder.ints(match.axes), int(match.shape is None)
        first = builder.op(operator, value, axes, keepdims=keeps, dims=labelled(dims))
        second = "ReduceMean" if operator == "ReduceMean" else "ReduceSum"
        editor.put(node, second, [first, *given], {"keepdims": keepdims})


def _is_of_vectors(node: ir.Node) -> bool:
    return node.op_type == "MatMul" and all(len(dims_of(value) or ()) == 1 for value in node.inputs)


def _parts(dims: Sequence[LabelledDim], sizes: dict[int, int]) -> list[_Parts]:
    """Ways to sum axes of known sizes in two steps: the last of them first, or a part of the largest."""
    axes, count = sorted(sizes), math.prod(sizes.values())
    found = []
    for place in range(1, len(axes)):
        first = math.prod(sizes[axis] for axis in axes[place:])
        found.append(_Parts(dims, axes[place:], None, max(first, count // first)))
    largest = max(axes, key=lambda axis: sizes[axis])
    size = sizes[largest]
    part = max(divisor for divisor in range(1, math.isqrt(size) + 1) if size % divisor == 0)
    divided = [*dims[:largest], part, size // part, *dims[largest + 1 :]]
    if (shape := _shape(divided, largest)) is not None:
        found.append(_Parts(divided, [largest + 1], shape, max(size // part, count // (size // part))))
    return found


def _shape(dims: Sequence[LabelledDim], place: int) -> list[int] | None:
    """A shape for Reshape that divides the axis at `place`; None where it would have to find two sizes.

    A symbolic size before that axis is where it was in the operand: 0 copies it.
    """
    shape = [dim if isinstance(dim, int) else 0 if axis < place else -1 for axis, dim in enumerate(dims)]
    return shape if shape.count(-1) <= (0 not in shape) else None
