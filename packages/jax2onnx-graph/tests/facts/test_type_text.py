"""Types of values as people read them."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.type_text import tensor_type_text, type_text

FLOATS = ir.TensorType(ir.DataType.FLOAT)


@pytest.mark.parametrize(
    ("type_", "shape", "text"),
    [
        (FLOATS, ["batch", 10], "float32[batch, 10]"),
        (FLOATS, [], "float32[]"),
        (FLOATS, [None, 3], "float32[?, 3]"),
        (ir.TensorType(ir.DataType.INT64), None, "int64[…]"),
        (ir.SequenceType(FLOATS), [2], "sequence(float32[2])"),
        (ir.OptionalType(ir.SequenceType(FLOATS)), None, "optional(sequence(float32[…]))"),
        (ir.SparseTensorType(ir.DataType.DOUBLE), [2], "sparse float64[2]"),
        (None, [2], "unknown[2]"),
    ],
)
def test_the_type_of_a_value(type_, shape, text):
    value = ir.Value(name="x", type=type_, shape=None if shape is None else ir.Shape(shape))
    assert type_text(value) == text


def test_the_type_of_a_tensor():
    assert tensor_type_text(ir.tensor([[1, 2, 3]], ir.DataType.INT32)) == "int32[1, 3]"
