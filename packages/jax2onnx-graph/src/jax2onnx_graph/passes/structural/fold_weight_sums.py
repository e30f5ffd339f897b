"""`FoldWeightSums`: a weight with something added that is computed of constants is one weight."""

from __future__ import annotations

__all__ = ["FoldWeightSums"]

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.weights.absent import computed

_OPERATIONS: dict[str, Callable[..., Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "MatMul": np.matmul, "Neg": np.negative,
}  # fmt: skip
_TYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_DEEPEST = 8


@dataclasses.dataclass(frozen=True)
class _Sum:
    """A sum that is a constant.

    Attributes:
      weight: the constant of its size.
      tensors: all constants that it is computed of.
      compute: computes it of their arrays.
    """

    weight: ir.Value
    tensors: Sequence[ir.TensorProtocol]
    compute: Callable[..., Array]


class FoldWeightSums(NodePass[_Sum]):
    """Compute sums of a weight and a constant expression of its shape at export, when the weight is read.

    1. `Add(w, d)` and `Sub(w, d)`, in any order, are a constant where `w` is one with the shape of the sum, and `d` is computed of
       constants by sums, products and quotients in float32 or float64: `w + scale * (a @ b)`, an adapter that was merged. The
       file is no larger, since `w` is not in it any more, and the product with the weight can be quantised.
    """

    phase = Phase.SIMPLIFY
    operators = frozenset({"Add", "Sub"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Sum | None:
        """The sum that a node computes of constants."""
        result = node.outputs[0]
        dims = dims_of(result)
        weight = next((v for v in node.inputs if constant_tensor(v) is not None and dims_of(v) == dims), None)
        if weight is None or dims is None or len(dims) < 2 or not all(isinstance(dim, int) for dim in dims):
            return None
        if all(constant_tensor(value) is not None for value in node.inputs):
            return None  # two weights would become one of the size of both only where nothing else reads them
        tensors: list[ir.TensorProtocol] = []
        compute = _computation(result, tensors, _DEEPEST)
        return None if compute is None else _Sum(weight, tensors, compute)

    def rewrite(self, node: ir.Node, match: _Sum, editor: GraphEditor) -> None:
        """Let the readers of the sum read a constant."""
        dtype = node.outputs[0].dtype
        dims = [dim for dim in dims_of(node.outputs[0]) or () if isinstance(dim, int)]
        assert dtype is not None, "its type is one of those that are computed"

        def total(*arrays: Array) -> Array:
            with np.errstate(all="ignore"):
                return match.compute(arrays)

        editor.replace(node, editor.own(computed(total, match.tensors, dtype, dims), [match.weight]))


def _computation(
    value: ir.Value | None, tensors: list[ir.TensorProtocol], depth: int
) -> Callable[[Sequence[Array]], Array] | None:
    """The function that computes a value of the arrays of `tensors`, to which the constants are added; None for other values."""
    tensor = constant_tensor(value)
    if value is None or value.dtype not in _TYPES or depth == 0:
        return None
    if tensor is not None:
        place = len(tensors)
        tensors.append(tensor)
        return lambda arrays: arrays[place]
    node = value.producer()
    operation = None if node is None or node.domain else _OPERATIONS.get(node.op_type)
    if node is None or operation is None:
        return None
    operands = [_computation(operand, tensors, depth - 1) for operand in node.inputs]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    return lambda arrays: operation(*(operand(arrays) for operand in known))
