"""Random inputs: which numbers each distribution has."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax2onnx_core.frontend.inputs import parse_inputs
from jax2onnx_testing.values import arguments, random_array


def drawn(dtype: Any, shape: tuple[int, ...], values: Any) -> np.ndarray:
    return np.asarray(random_array(np.random.default_rng(0), np.dtype(dtype), shape, values))


FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("values", "low", "high"), [("positive", 0.0, 3.0), ("unit", -1.0, 1.0), ("finite", -5.0, 5.0)]
)
def test_ordinary_floats_are_between_bounds(dtype, values, low, high):
    found = drawn(dtype, (40, 50), values)
    assert (found.dtype, found.shape) == (np.dtype(dtype), (40, 50))
    wide = found.astype(np.float64)
    assert low <= wide.min() < low + (high - low) / 4
    assert high - (high - low) / 4 < wide.max() <= high


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_floats_are_a_third(dtype):
    found, info = drawn(dtype, (30, 30), "special").astype(np.float64), ml_dtypes.finfo(dtype)
    counts = [np.isnan(found).sum(), (found == np.inf).sum(), (found == -np.inf).sum(), (found == 0).sum() / 2]
    counts += [(found == float(number)).sum() for number in (info.max, info.min, info.smallest_normal)]
    assert all(24 <= count <= 26 for count in counts), counts
    assert np.signbit(found[found == 0]).any()
    assert 600 <= np.isfinite(found).sum() - 200 <= 640
    assert 2.5 < found[(np.abs(found) < 20) & (found != 0)].std() < 3.5


@pytest.mark.parametrize(("size", "special"), [(0, 0), (1, 1), (5, 5), (12, 12), (20, 12), (60, 20)])
def test_small_arrays_have_as_many_special_floats_as_there_is_room_for(size, special):
    found = drawn(np.float32, (size,), "special")
    extremes = [
        0.0,
        1,
        -1,
        0.5,
        2.5,
        *(float(x) for x in (np.finfo("f4").max, np.finfo("f4").min, np.finfo("f4").tiny)),
    ]
    assert (np.isin(found, extremes) | ~np.isfinite(found)).sum() == special


def test_two_floats_are_rare():
    found, ordinary = drawn(np.float32, (50,), "rare"), drawn(np.float32, (50,), "finite")
    assert 1 <= (found != ordinary).sum() <= 2


def test_floats_of_any_magnitude():
    exponents = np.log10(np.abs(drawn(np.float32, (2000,), "wide")).astype(np.float64) + 1e-60)
    assert exponents.min() < -36
    assert exponents.max() > 37
    assert np.isfinite(drawn(np.float32, (2000,), "wide")).all()


@pytest.mark.parametrize(
    ("dtype", "values", "low", "high"),
    [
        (np.int32, "finite", -5, 5), (np.int32, "rare", -5, 5), (np.int64, "positive", 1, 5), (np.int32, "unit", 0, 1),
        (np.int32, "wide", -99, 99), (np.uint8, "finite", 0, 5), (ml_dtypes.int4, "wide", -8, 6), (ml_dtypes.uint2, "positive", 1, 2),
        (np.bool_, "finite", 0, 1), (np.uint64, "finite", 0, 5), (np.int8, "positive", 1, 5),
    ],
)  # fmt: skip
def test_integers_are_between_bounds(dtype, values, low, high):
    found = drawn(dtype, (40, 50), values)
    assert (found.dtype, found.shape) == (np.dtype(dtype), (40, 50))
    assert (int(found.min()), int(found.max())) == (low, high)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.int64])
def test_special_integers_are_the_ends_of_their_dtype(dtype):
    found, info = drawn(dtype, (30, 30), "special"), np.iinfo(dtype)
    for number in (info.min, info.min + 1, info.max, info.max - 1, info.max // 2):
        assert 40 <= (found == number).sum() <= 170
    ordinary = found[(found >= max(-8, info.min + 2)) & (found <= 8)]
    assert ordinary.size >= 450


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_parts_of_complex_numbers_differ(dtype):
    found = drawn(dtype, (50,), "special")
    assert (found.dtype, found.shape) == (np.dtype(dtype), (50,))
    for part in (found.real, found.imag):
        assert np.isnan(part).any()
        assert np.isfinite(part).sum() > 30
    assert not np.array_equal(found.real, found.imag)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_random_keys(shape):
    keys = random_array(np.random.default_rng(0), jax.random.key(0).dtype, shape, "finite")
    assert (keys.shape, keys.dtype) == (shape, jax.random.key(0).dtype)
    data = np.asarray(jax.random.key_data(keys)).reshape(-1, 2)
    assert len(np.unique(data, axis=0)) == len(data)


def test_arrays_that_were_given_stay():
    given = {"a": np.arange(3.0, dtype=np.float32), "b": (2,)}
    specs = [given, [("B",), jnp.ones(2)], np.float32(3)]
    inputs = parse_inputs(lambda one, two, three: None, specs, {}, ())
    args, kwargs = arguments(inputs, specs, {"B": 4}, "finite", 1)
    assert kwargs == {}
    one, two, three = args
    np.testing.assert_array_equal(one["a"], given["a"])
    assert one["b"].shape == (2,)
    assert two[0].shape == (4,)
    np.testing.assert_array_equal(two[1], np.ones(2))
    assert three == 3
    again = arguments(inputs, specs, {"B": 4}, "finite", 1)[0]
    np.testing.assert_array_equal(again[1][0], two[0])
    assert not np.array_equal(arguments(inputs, specs, {"B": 4}, "finite", 2)[0][1][0], two[0])
