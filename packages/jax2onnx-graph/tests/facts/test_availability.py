"""Operators and element types that the versions of the standard have."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.availability import is_allowed, main_value, schema_of


@pytest.mark.parametrize(
    ("op_type", "dtype", "opset", "expected"),
    [
        ("Exp", np.float32, 18, True),
        ("Exp", np.int32, 18, False),
        ("Gelu", np.float32, 19, False),
        ("Gelu", np.float32, 20, True),
        ("Where", np.bool_, 18, True),  # the type of the values, not of the condition
        ("Where", np.str_, 18, True),
        ("Where", np.datetime64, 18, False),
        ("ScatterND_add", np.float32, 18, True),
        ("Nonsense", np.float32, 18, False),
        ("RandomNormal", np.float32, 18, True),
        ("ConstantOfShape", np.int32, 18, True),
    ],
)
def test_an_element_type_is_allowed_for_the_main_operand(op_type, dtype, opset, expected):
    assert is_allowed(op_type, np.dtype(dtype), opset) is expected


@pytest.mark.parametrize(
    ("op_type", "operands", "expected"),
    [("Add", 2, 0), ("Where", 3, 1), ("OneHot", 3, 2), ("ConstantOfShape", 1, None), ("RandomNormal", 0, None)],
)
def test_the_main_value_decides_whether_there_is_a_kernel(op_type, operands, expected):
    values = [ir.Value(name=str(i)) for i in range(operands)]
    node = ir.Node("", op_type, values)
    assert main_value(node, 23) is (node.outputs[0] if expected is None else values[expected])


def test_an_operator_that_is_not_there_has_no_schema():
    assert schema_of("Gelu", 19) is None
    schema = schema_of("Gelu", 20)
    assert schema is not None
    assert schema.since_version == 20
