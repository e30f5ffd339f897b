"""The measured table and what it says about legalisation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.kernels import element_type
from jax2onnx_onnxruntime import OnnxRuntime, supports
from jax2onnx_onnxruntime._kernels import kernels, measured


@pytest.mark.parametrize("op_type", ["Add", "Where", "Gather", "MatMul", "Cast", "Max", "ReduceSum"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_the_common_types_are_supported(op_type, dtype):
    assert supports(op_type, np.dtype(dtype), 23)


@pytest.mark.parametrize("op_type", ["Erf", "Conv", "Acos", "Sinh", "AveragePool", "Gelu"])
def test_what_has_no_float64_kernel_is_not_supported(op_type):
    assert not supports(op_type, np.dtype(np.float64), 23)


@pytest.mark.parametrize("op_type", ["Erf", "Exp", "Conv", "ReduceSum", "Where", "MatMul", "Attention", "TopK"])
def test_bfloat16_is_supported_through_float32(op_type):
    assert supports(op_type, np.dtype(ml_dtypes.bfloat16), 23)


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [
        ("Where", np.uint64),
        ("Where", np.bool_),
        ("ReduceSum", np.uint64),
        ("ReduceSum", np.int8),
        ("ReduceMax", np.uint64),
        ("TopK", np.uint16),
        ("Pad", np.int16),
        ("Max", np.bool_),
        ("ScatterElements_max", np.bool_),
        ("BitShift", np.uint16),
        ("Gather", ml_dtypes.float8_e4m3fn),
        ("Transpose", ml_dtypes.int4),
        ("MatMul", np.int8),
    ],
)
def test_integers_are_supported_through_wider_ones(op_type, dtype):
    assert supports(op_type, np.dtype(dtype), 23)


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [("Exp", np.int32), ("Add", np.bool_), ("Gemm", np.int64), ("Add", np.complex64), ("NoSuchOperator", np.float32)],
)
def test_what_cannot_be_exact_is_not_supported(op_type, dtype):
    assert not supports(op_type, np.dtype(dtype), 23)


def test_an_operator_that_the_opset_lacks_is_not_supported():
    assert supports("Gelu", np.dtype(np.float32), 20)
    assert not supports("Gelu", np.dtype(np.float32), 18)


def test_kernels_differ_between_versions_of_an_operator():
    bfloat16 = element_type(np.dtype(ml_dtypes.bfloat16))
    int4 = element_type(np.dtype(ml_dtypes.int4))
    assert bfloat16 in (kernels("Reshape", "T", 23) or ())
    assert int4 not in (kernels("Transpose", "T", 18) or (int4,))
    assert int4 in (kernels("Transpose", "T", 21) or ())


def test_the_table_names_the_version_it_was_measured_with():
    assert measured("kernels")["onnxruntime"].count(".") == 2


@pytest.mark.parametrize(
    ("dtype", "lower", "expected"), [(ir.DataType.FLOAT, 18, True), (ir.DataType.FLOAT8E5M2, 20, False)]
)
def test_a_lower_opset_may_have_no_kernel_for_a_type_that_the_standard_has_there(dtype, lower, expected):
    x, y = ir.Value(name="x", type=ir.TensorType(dtype)), ir.Value(name="y", type=ir.TensorType(ir.DataType.INT64))
    assert OnnxRuntime().runs_as_well(ir.Node("", "Shape", [x], outputs=[y]), 21, lower) is expected
