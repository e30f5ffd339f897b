"""`sort`, `top_k` and `approx_top_k` against JAX: stability, NaN, signed zeros, extremes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import assert_equals_jax
from jax import lax
from jax2onnx_core import to_onnx

FLOATS = [np.float16, np.float32, np.float64, jnp.bfloat16]
INTEGERS = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, 2])


def _values(shape, dtype, seed):
    generator = np.random.default_rng(seed)
    if np.dtype(dtype) in map(np.dtype, FLOATS):
        return generator.choice(SPECIAL, shape).astype(dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 3, 5], dtype)
    return generator.choice(edges, shape)


@given(st.data())
def test_sort_equals_jax_for_any_keys(data):
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(0 if i else 1, 7)) for i in range(rank))
    count = data.draw(st.integers(1, 3))
    keys, axis = data.draw(st.integers(1, count)), data.draw(st.integers(0, rank - 1))
    operands = [_values(shape, data.draw(st.sampled_from(FLOATS + INTEGERS)), seed) for seed in range(count)]

    def fn(*xs):
        place = lax.broadcasted_iota(np.int32, shape, axis)
        return lax.sort((*xs, place), dimension=axis, num_keys=keys)[-1]

    with jax.enable_x64(True):
        assert_equals_jax(fn, *operands)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_sorted_values_equal_jax(dtype):
    with jax.enable_x64(True):
        x = _values((40,), dtype, 0)
        got = np.asarray(to_onnx(lambda x: lax.sort(x), [x])(x))
        want = np.asarray(lax.sort(jnp.asarray(x)))
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("k", [1, 3, 8])
def test_top_k_equals_jax(dtype, k):
    with jax.enable_x64(True):
        x = _values((20, 8), dtype, 0)
        values, places = to_onnx(lambda x: lax.top_k(x, k), [x])(x)
        want = lax.top_k(jnp.asarray(x), k)
        np.testing.assert_array_equal(values.astype(np.float64), np.asarray(want[0]).astype(np.float64))
        np.testing.assert_array_equal(places, want[1])


@pytest.mark.parametrize("dtype", FLOATS)
def test_top_k_puts_negative_zero_between_zero_and_the_negative_numbers(dtype):
    with jax.enable_x64(True):
        least = jnp.finfo(dtype).smallest_subnormal
        x = np.array([-0.0, -least, 0.0, -0.0, least, 0.0]).astype(dtype)
        assert list(to_onnx(lambda x: lax.top_k(x, 6)[1], [x])(x)) == [4, 2, 5, 0, 3, 1]


@pytest.mark.parametrize("largest", [True, False])
def test_approx_top_k_is_exact(largest):
    x = np.random.default_rng(0).standard_normal((3, 200)).astype(np.float32)
    fn = lax.approx_max_k if largest else lax.approx_min_k
    assert_equals_jax(lambda x: fn(x, 7), x)


def test_sort_along_a_symbolic_axis_keeps_its_name():
    program = to_onnx(lambda x: lax.sort(x, dimension=1), [("B", "2*N")])
    assert [str(d) for d in program.model.graph.outputs[0].shape] == ["B", "2*N"]
    x = _values((3, 10), np.float32, 0)
    np.testing.assert_array_equal(program(x), lax.sort(x, dimension=1))


def test_vmapped_argsort_equals_jax():
    x = _values((4, 9), np.float32, 1)
    assert_equals_jax(jax.vmap(jnp.argsort), x)


def test_median_and_unique_count_equal_jax():
    x = np.random.default_rng(0).integers(0, 5, 17).astype(np.float32)
    assert_equals_jax(lambda x: (jnp.median(x), jnp.unique_counts(x, size=6).counts), x)
