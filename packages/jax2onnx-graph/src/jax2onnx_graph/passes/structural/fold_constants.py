"""`FoldConstants`: small integer arithmetic on shapes is evaluated at export."""

from __future__ import annotations

__all__ = ["FoldConstants"]

from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.evaluate import EVALUATED, MAX_ELEMENTS, evaluate
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase

_OF_SHAPE = frozenset({"Shape", "Size", "Gather", "Slice"})


class FoldConstants(NodePass[np.ndarray]):
    """Replace integer and boolean nodes whose results are known by constants.

    1. `Shape(x)` and `Size(x)` where the dimensions asked for are static.
    2. `Gather(Shape(x), constant)` and `Slice(Shape(x), constants)` where those dimensions are static.
    3. Every operator that `evaluate` knows on integer or boolean constants of at most `MAX_ELEMENTS` elements, and a Cast of these
       to floating-point numbers.
    """

    phase = Phase.SIMPLIFY
    operators = _OF_SHAPE | (EVALUATED - {"Identity"})  # which an output that is a constant is

    def match(self, node: ir.Node, editor: GraphEditor) -> np.ndarray | None:
        """The result of the node."""
        if len(node.outputs) != 1:
            return None
        result = _of_shape(node) if node.op_type in _OF_SHAPE else _of_constants(node)
        return result if result is not None and result.size <= MAX_ELEMENTS else None

    def rewrite(self, node: ir.Node, match: np.ndarray, editor: GraphEditor) -> None:
        editor.replace(node, editor.constant(match))


def _of_shape(node: ir.Node) -> np.ndarray | None:
    if node.op_type in ("Shape", "Size"):
        numbers = _static(_shape_slice(node))
        if numbers is None or node.op_type == "Shape":
            return numbers
        return np.array(np.prod(numbers, dtype=np.int64))
    if not node.inputs or any(value is not None and known(value, MAX_ELEMENTS) is None for value in node.inputs[1:]):
        return None
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if source is None or source.domain or source.op_type != "Shape":
        return _of_constants(node)
    dims = _shape_slice(source)
    if dims is None:
        return None
    positions = evaluate(node, [np.arange(len(dims)), *(known(v) for v in node.inputs[1:])])
    if positions is None:
        return None
    picked = [dims[int(i)] for i in positions.reshape(-1)]
    values = _static(picked)
    return None if values is None else values.reshape(positions.shape)


def _shape_slice(node: ir.Node) -> tuple[LabelledDim, ...] | None:
    dims = dims_of(node.inputs[0])
    if dims is None:
        return None
    end = node.attributes.get_int("end", len(dims))
    return dims[node.attributes.get_int("start", 0) : end]


def _static(dims: Sequence[LabelledDim] | None) -> np.ndarray | None:
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return None
    return np.array(dims, np.int64)


def _of_constants(node: ir.Node) -> np.ndarray | None:
    operands: list[np.ndarray | None] = []
    for value in node.inputs:
        array = known(value, MAX_ELEMENTS)
        if array is None and value is not None:
            return None
        operands.append(array)
    return evaluate(node, operands)
