"""`known` and `dims_of`: the constant behind a value of a graph, and its labelled dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import Dim
from jax2onnx_graph.facts.sizes import LabelledDim, size_of
from jax2onnx_graph.weights.absent import known_array

__all__ = [
    "SMALL",
    "LabelledDim",
    "constant_tensor",
    "dims_of",
    "given_operands",
    "known",
    "operand",
    "same_dim",
    "same_dims",
]

#: Constants of so many elements are looked at wherever they are met.
SMALL = 1024


def constant_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor behind `value` if it is an initializer or the result of a Constant node; its numbers may be absent."""
    if value is None or value.is_graph_input():
        return None
    producer = value.producer()
    if producer is None:
        return value.const_value
    attribute = producer.attributes.get("value") if producer.op_type == "Constant" and not producer.domain else None
    return None if attribute is None else attribute.as_tensor()


def known(value: ir.Value | None, limit: int | None = SMALL) -> np.ndarray | None:
    """The array that `value` always holds, if it is a constant of at most `limit` elements whose numbers are there."""
    tensor = constant_tensor(value)
    return None if tensor is None or (limit is not None and tensor.size > limit) else known_array(tensor)


def operand(node: ir.Node, index: int) -> ir.Value | None:
    """An operand of a node, None if it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def given_operands(node: ir.Node) -> list[ir.Value]:
    """The operands that a node is given."""
    return [value for value in node.inputs if value is not None]


def dims_of(value: ir.Value | None) -> tuple[LabelledDim, ...] | None:
    """The labelled dimensions of `value`, or None where its rank is unknown."""
    shape = None if value is None else value.shape
    return None if shape is None else shape.dims


def same_dim(a: Dim | LabelledDim, b: Dim | LabelledDim) -> bool:
    """Whether two dimensions are certainly equal: the same number or expression, or labels of the same size."""
    # Numbers first: to ask whether an int is of a class that derives from a protocol takes long.
    if isinstance(a, int) or isinstance(b, int):
        return a == b
    if isinstance(a, ir.SymbolicDim) and isinstance(b, ir.SymbolicDim):
        return a.value is not None and (a.value == b.value or size_of([a]) == size_of([b]))
    return a == b


def same_dims(a: Sequence[LabelledDim] | None, b: Sequence[LabelledDim] | None) -> bool:
    """Whether two shapes are known and certainly equal."""
    return a is not None and b is not None and len(a) == len(b) and all(map(same_dim, a, b))
