"""Exactness of casts against NumPy, value by value."""

from __future__ import annotations

import warnings

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.dtypes import first_opset, is_exact_cast, width

T = ir.DataType
NUMBERS = [dtype for dtype in T if dtype.is_floating_point() or dtype.is_integer() or dtype == T.BOOL]
SMALL = [dtype for dtype in NUMBERS if dtype.bitwidth <= 16]


def values(dtype: ir.DataType) -> np.ndarray:
    """Every value of a type of at most 16 bits, as doubles."""
    if dtype == T.BOOL:
        return np.array([0.0, 1.0])
    if dtype.is_integer():
        low = -(1 << (dtype.bitwidth - 1)) if dtype.is_signed() else 0
        return np.arange(low, low + (1 << dtype.bitwidth)).astype(np.float64)
    bits = np.arange(1 << dtype.bitwidth).astype(np.uint16 if dtype.bitwidth == 16 else np.uint8)
    return as_doubles(bits.view(dtype.numpy()))


def as_doubles(array: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of signalling NaNs
        return array.astype(np.float64)


def survives(array: np.ndarray, target: ir.DataType) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cast = as_doubles(array.astype(target.numpy()))
    return np.array_equal(cast, array, equal_nan=True) and np.array_equal(
        np.signbit(cast[array == 0]), np.signbit(array[array == 0])
    )


@pytest.mark.parametrize("source", SMALL, ids=lambda dtype: dtype.name)
def test_a_cast_is_exact_if_every_value_survives_in_numpy(source):
    everything = values(source)
    assert {target for target in NUMBERS if is_exact_cast(source, target)} == {
        target for target in NUMBERS if source == target or survives(everything, target)
    }


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        (T.INT32, {T.INT32, T.INT64, T.DOUBLE}),
        (T.UINT32, {T.UINT32, T.UINT64, T.INT64, T.DOUBLE}),
        (T.INT64, {T.INT64}),
        (T.UINT64, {T.UINT64}),
        (T.FLOAT, {T.FLOAT, T.DOUBLE}),
        (T.DOUBLE, {T.DOUBLE}),
    ],
)
def test_large_types_fit_only_larger_ones(source, targets):
    assert {target for target in NUMBERS if is_exact_cast(source, target)} == targets


@pytest.mark.parametrize("dtype", [T.STRING, T.COMPLEX64, T.UNDEFINED])
def test_what_is_not_a_real_number_is_only_cast_to_itself(dtype):
    assert {target for target in T if is_exact_cast(dtype, target)} == {dtype}
    assert {source for source in T if is_exact_cast(source, dtype)} == {dtype}


def test_a_boolean_has_one_bit():
    assert (width(T.BOOL), width(T.INT4), width(T.FLOAT16)) == (1, 4, 16)


@pytest.mark.parametrize(
    ("dtype", "opset"),
    [
        (None, 0), (T.FLOAT, 0), (T.BFLOAT16, 0), (T.BOOL, 0), (T.COMPLEX64, 0), (T.FLOAT8E5M2, 19), (T.UINT4, 21),
        (T.FLOAT4E2M1, 23), (T.FLOAT8E8M0, 24), (T.INT2, 25),
    ],
)  # fmt: skip
def test_element_types_exist_from_some_opset_on(dtype, opset):
    assert first_opset(dtype) == opset
