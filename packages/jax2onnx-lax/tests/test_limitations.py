"""The differences that `LIMITATIONS` states are those that models have, and no greater ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_lax.limitations import LIMITATIONS


def resized(x):
    return jax.image.resize(x, (1, 8, 8, 1), "linear")


def normalised(x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.maximum(0.0, (x * x).mean(-1, keepdims=True) - mean * mean)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6)


def test_a_resize_is_nan_only_where_a_pixel_that_is_not_finite_has_a_weight():
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    x[0, 1, 2] = np.nan
    got, usual = to_onnx(resized, [x])(x), np.asarray(resized(np.nan_to_num(x)))
    assert np.isnan(resized(x)).all()
    has_weight = np.isnan(got)
    assert 0 < has_weight.sum() < got.size
    np.testing.assert_allclose(got[~has_weight], usual[~has_weight], rtol=1e-5)


def test_a_norm_whose_squares_overflow_is_right_in_other_rows():
    x = np.array([[3e19, 2.9e19, 3e19, 3.1e19], [1, 2, 3, 5]], np.float32)
    got = to_onnx(normalised, [x])(x)
    np.testing.assert_allclose(got[1], normalised(x[1:])[0], rtol=1e-5)


def test_a_cumulative_product_of_an_infinity_and_an_underflow_is_infinite_or_nan():
    x = np.array([np.inf, 1e-30, 1e-30, 2], np.float32)
    got = to_onnx(jnp.cumprod, [x])(x)
    np.testing.assert_array_equal(got[:2], [np.inf, np.inf])
    assert not np.isfinite(got[2:]).any()


@pytest.mark.parametrize("subject", ["half precision", "layer norms by the mean of squares", "sums of products"])
def test_limits_of_large_numbers_are_in_the_table_of_special_values(subject):
    [one] = [one for one in LIMITATIONS if one.subject == subject]
    assert one.values == ("large numbers",)
