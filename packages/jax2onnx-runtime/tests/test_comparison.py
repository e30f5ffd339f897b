"""Comparing arrays: what is close, what is allowed, and what a comparison tells."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jax2onnx_graph.errors import VerificationError
from jax2onnx_runtime.comparison import compare, output_error, random_array, tolerance

F32 = np.float32


@pytest.mark.parametrize(
    ("dtype", "least", "expected"),
    [
        ("float64", 0.0, 1e-9), ("float32", 0.0, 1e-4), ("float16", 0.0, 2e-2), (ml_dtypes.bfloat16, 0.0, 6e-2),
        ("complex64", 0.0, 1e-4), ("complex128", 0.0, 1e-9), (ml_dtypes.float8_e4m3fn, 0.0, 0.3), ("int32", 0.0, 0.0), ("bool", 0.0, 0.0),
        ("float32", 1e-2, 1e-2), ("float16", 1e-2, 2e-2), ("int32", 1e-2, 0.0),
    ],
)  # fmt: skip
def test_the_tolerance_of_a_dtype(dtype, least, expected):
    assert tolerance(np.dtype(dtype), least) == expected


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("got", "want", "options", "is_close", "largest", "allowed"),
    [
        ([1, 100.005], [1, 100], {}, True, 0.005, 0.01),
        ([1.009, 100], [1, 100], {}, True, 0.009, 0.01),
        ([1.02, 100], [1, 100], {}, False, 0.02, 0.01),
        ([1, 100.03], [1, 100], {}, False, 0.03, 0.01),
        ([1.02, 100], [1, 100], {"rtol": 1e-3}, True, 0.02, 0.1),
        ([1.02, 100], [1, 100], {"least": 1e-3}, True, 0.02, 0.1),
        ([1.02, 100], [1, 100], {"least": 1e-9}, False, 0.02, 0.01),
        ([1.02, 100], [1, 100], {"scale": 1.0}, False, 0.02, 1e-4),
        ([1.02, 100], [1, 100], {"atol": 0.1}, True, 0.02, 0.1),
        ([1.02, 100], [1, 100], {"atol": 0.001}, False, 0.02, 0.001),
        ([1, 100.005], [1, 100], {"rtol": 0.0}, False, 0.005, 0.0),
        ([1, 100.005], [1, 100], {"rtol": 0.0, "atol": 0.0}, False, 0.005, 0.0),
        ([1, 100.005], [1, 100], {"rtol": 0.0, "atol": 0.01}, True, 0.005, 0.01),
        ([NAN, 1], [NAN, 1], {"rtol": 0.0}, True, 0.0, 0.0),
        ([NAN, 1], [1, 1], {"rtol": 0.0}, False, 0.0, 0.0),
        ([1, 1], [NAN, 1], {"rtol": 0.0}, False, 0.0, 0.0),
        ([INF, -INF], [INF, INF], {"rtol": 0.0}, False, 0.0, 0.0),
        ([0, 0], [0, 0], {}, True, 0.0, 1e-34),
        ([1e-20], [0], {}, False, 1e-20, 1e-34),
        ([NAN, 1], [NAN, 1], {}, True, 0.0, 1e-4),
        ([NAN, 1], [1, 1], {}, False, 0.0, 1e-4),
        ([1, 1], [NAN, 1], {}, False, 0.0, 1e-4),
        ([INF, -INF], [INF, -INF], {}, True, 0.0, 1e-34),
        ([INF], [-INF], {}, False, 0.0, 1e-34),
        ([INF, 2.5], [2, 2], {}, False, 0.5, 2e-4),
        ([2, 2], [INF, 2], {}, False, 0.0, 2e-4),
        ([-3], [3], {}, False, 6.0, 3e-4),
    ],
)
def test_floats(got, want, options, is_close, largest, allowed):
    found = compare(np.array(got, F32), np.array(want, F32), **options)
    assert found.is_close == is_close
    np.testing.assert_allclose([found.largest, found.allowed], [largest, allowed], rtol=2e-3, atol=1e-40)
    assert found.is_known == bool(np.isfinite(want).any())


@pytest.mark.parametrize(
    ("got", "want", "dtype", "is_close"),
    [
        ([3, 4], [3, 4], np.int32, True), ([3, 4], [3, 5], np.int32, False), ([True], [False], np.bool_, False),
        ([2**62 + 1], [2**62], np.int64, False), ([1 + 1j], [1 + 1j], np.complex64, True), ([1 + 1j], [1 - 1j], np.complex64, False),
        ([], [], F32, True),
    ],
)  # fmt: skip
def test_other_dtypes(got, want, dtype, is_close):
    found = compare(np.array(got, dtype), np.array(want, dtype))
    assert (found.is_close, found.is_known) == (is_close, True)


def test_what_differs_is_counted_and_the_first_is_named():
    want = np.zeros((2, 3), np.int32)
    got = want.copy()
    got[1, 0], got[1, 2] = 7, -9
    error = output_error("y", got, want, "B = 3")
    assert error.detail == (
        "2 of 6 elements, largest difference 9; the first is at (1, 0): np.int32(7) instead of np.int32(0)"
    )
    with pytest.raises(VerificationError, match=r"Output 'y' differs from what it should be at B = 3: 2 of 6"):
        error.check()
    output_error("y", want, want, "B = 3").check()


def test_another_shape_is_an_error():
    with pytest.raises(VerificationError, match=r"Output 'y' has shape \(2,\) instead of \(1, 2\), at B = 3"):
        output_error("y", np.zeros(2), np.zeros((1, 2)), "B = 3")


@pytest.mark.parametrize(
    ("dtype", "bounds", "low", "high"),
    [
        (np.bool_, None, 0, 1), (np.int32, None, 0, 4), (np.uint8, None, 0, 4), (np.int8, (-3, 2), -3, 1), (np.int8, (120, 300), 120, 127),
        (np.uint8, (250, 300), 250, 255), (ml_dtypes.int4, (0, 100), 0, 7), (np.uint64, (2**64 - 2, 2**64), 2**64 - 2, 2**64 - 1),
        (np.float32, (2.0, 3.0), 2, 3), (np.float16, (-1.0, 0.0), -1, 0),
    ],
)  # fmt: skip
def test_random_numbers_reach_their_bounds(dtype, bounds, low, high):
    found = random_array(np.random.default_rng(0), dtype, (40, 40), bounds)
    assert (found.shape, found.dtype) == ((40, 40), np.dtype(dtype))
    number, slack = (float, 0.01) if np.dtype(dtype).kind == "f" else (int, 0)
    least, most = number(found.min()), number(found.max())
    assert low <= least <= low + slack
    assert high - slack <= most <= high


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, ml_dtypes.bfloat16])
def test_random_numbers_without_bounds_are_normal(dtype):
    found: Any = random_array(np.random.default_rng(0), dtype, (4000,))
    parts = [found.real, found.imag] if found.dtype.kind == "c" else [found.astype(F32)]
    for part in parts:
        assert abs(part.mean()) < 0.1
        assert abs(part.std() - 1) < 0.1
