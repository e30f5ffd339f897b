"""Element types of results, and the operands that hold their values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import RuleError
from jax2onnx_graph.facts.schemas import output_types, value_inputs

T = ir.DataType


def value(dtype: ir.DataType) -> ir.Value:
    return ir.Value(type=ir.TensorType(dtype))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "expected"),
    [
        ("Add", [T.INT8, T.INT8], {}, T.INT8),
        ("Equal", [T.INT8, T.INT8], {}, T.BOOL),
        ("Shape", [T.FLOAT], {}, T.INT64),
        ("Concat", [T.UINT8, T.UINT8], {"axis": 0}, T.UINT8),
        ("Cast", [T.FLOAT], {"to": 10}, T.FLOAT16),
        ("CastLike", [T.FLOAT, T.INT4], {}, T.INT4),
        ("ConstantOfShape", [T.INT64], {}, T.FLOAT),
        ("ConstantOfShape", [T.INT64], {"value": ir.tensor(np.array([1], np.int8))}, T.INT8),
        ("EyeLike", [T.DOUBLE], {}, T.DOUBLE),
        ("EyeLike", [T.DOUBLE], {"dtype": 6}, T.INT32),
        ("RandomNormal", [], {"shape": [2]}, T.FLOAT),
        ("RandomUniform", [], {"shape": [2], "dtype": 11}, T.DOUBLE),
        ("Bernoulli", [T.FLOAT], {}, T.FLOAT),
        ("HannWindow", [T.INT64], {"output_datatype": 11}, T.DOUBLE),
        ("DequantizeLinear", [T.INT8, T.FLOAT16], {}, T.FLOAT16),
        ("QuantizeLinear", [T.FLOAT, T.FLOAT], {}, T.UINT8),
        ("QuantizeLinear", [T.FLOAT, T.FLOAT, T.INT8], {}, T.INT8),
        ("QuantizeLinear", [T.FLOAT, T.FLOAT], {"output_dtype": 3}, T.INT8),
    ],
)
def test_the_type_of_a_result_follows_from_operands_and_attributes(op_type, inputs, attributes, expected):
    assert output_types(op_type, "", 23, [value(dtype) for dtype in inputs], attributes, 1) == [expected]


def test_several_results_have_their_own_types():
    assert output_types("TopK", "", 23, [value(T.FLOAT), value(T.INT64)], {}, 2) == [T.FLOAT, T.INT64]


def test_a_type_that_the_schema_leaves_open_must_be_given():
    with pytest.raises(RuleError, match=r"The type of output 0 of my.domain.Custom does not follow"):
        output_types("Custom", "my.domain", 23, [value(T.FLOAT)], {}, 1)


def test_an_operator_that_the_opset_lacks_is_named():
    with pytest.raises(RuleError, match="Opset 18 of ONNX has no operator Gelu"):
        output_types("Gelu", "", 18, [value(T.FLOAT)], {}, 1)


@pytest.mark.parametrize(
    ("op_type", "count", "output", "expected"),
    [
        ("Where", 3, 0, (1, 2)),
        ("Gather", 2, 0, (0,)),
        ("Pad", 4, 0, (0, 2)),
        ("ScatterElements", 3, 0, (0, 2)),
        ("Concat", 4, 0, (0, 1, 2, 3)),
        ("ReduceMax", 2, 0, (0,)),
        ("Clip", 3, 0, (0, 1, 2)),
        ("OneHot", 3, 0, (2,)),
        ("TopK", 2, 0, (0,)),
        ("TopK", 2, 1, ()),
        ("Shape", 1, 0, ()),
        ("ArgMax", 1, 0, ()),
        ("Equal", 2, 0, ()),
        ("NoSuchOperator", 2, 0, ()),
    ],
)
def test_values_come_from_the_operands_of_the_type_of_the_result(op_type, count, output, expected):
    assert value_inputs(op_type, count, output) == expected
