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
from jax2onnx_graph import ir

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


ORDERINGS = {
    "sort": lambda x: lax.sort(x, dimension=1),
    "argsort": lambda x: jnp.argsort(x, 1),
    "two keys": lambda x: lax.sort((x, -x, lax.broadcasted_iota(np.int32, x.shape, 1)), dimension=1, num_keys=2),
    "top_k": lambda x: lax.top_k(x, 3),
    "top_k of everything": lambda x: lax.top_k(x, x.shape[1]),
    "top_k of nothing": lambda x: lax.top_k(x, 0),
    "top_k of a negation": lambda x: lax.top_k(-x, 3),
    "argmax": lambda x: lax.argmax(x, 1, np.int32),
    "argmin": lambda x: lax.argmin(x, 1, np.int32),
    "partition": lambda x: jnp.partition(x, 3, 1),
    "argpartition": lambda x: jnp.argpartition(x, 3, 1),
}


def _with_signs(x, is_negative):
    """Floats of which every NaN has the given sign."""
    bits = x.view(f"uint{8 * x.itemsize}")
    sign = np.array(1, bits.dtype) << np.array(8 * x.itemsize - 1, bits.dtype)
    return np.where(np.isnan(x.astype(np.float64)), np.where(is_negative, bits | sign, bits & ~sign), bits).view(
        x.dtype
    )


def _assert_identical(got, want):
    """The same numbers with the same signs of zeros."""
    for result, expected in zip(jax.tree.leaves(got), map(np.asarray, jax.tree.leaves(want)), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(np.float64(result), np.float64(expected))
        number = ~np.isnan(np.float64(expected))
        np.testing.assert_array_equal(np.signbit(np.float64(result))[number], np.signbit(np.float64(expected))[number])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("opset", [18, 23, 26])
@pytest.mark.parametrize("name", ORDERINGS)
def test_order_of_special_values_is_that_of_jax(name, opset, dtype):
    fn, generator = ORDERINGS[name], np.random.default_rng(0)
    with jax.enable_x64(dtype == np.float64):
        program = to_onnx(fn, [(("B", "N + 8"), dtype)], opset=opset)
        for first in (0, 1, 4, 5):  # with NaN, then without, without negative zeros and infinities, without zeros
            x = _with_signs(generator.choice(SPECIAL[first:], (40, 9)).astype(dtype), False)
            _assert_identical(program(x), jax.jit(fn)(x))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ORDERINGS)
def test_order_depends_on_the_sign_of_nan_from_opset_26(name, dtype):
    fn, generator = ORDERINGS[name], np.random.default_rng(1)
    with jax.enable_x64(dtype == np.float64):
        x = _with_signs(generator.choice(SPECIAL, (40, 9)).astype(dtype), generator.random((40, 9)) < 0.5)
        _assert_identical(to_onnx(fn, [x], opset=26)(x), jax.jit(fn)(x))


ORDERINGS_OF_SOFTMAX = {
    "argmax": lambda x: lax.argmax(jax.nn.softmax(x), 1, np.int32),
    "argmin of rows": lambda x: lax.argmin(jax.nn.log_softmax(x[:, None]).reshape(-1, 9), 1, np.int32),
    "argmax across": lambda x: lax.argmax(jax.nn.softmax(x), 0, np.int32),
    "top_k": lambda x: lax.top_k(jax.nn.softmax(x), 3)[1],
    "top_k of all": lambda x: lax.top_k(jax.nn.softmax(x), 9)[1],
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ORDERINGS_OF_SOFTMAX)
def test_order_of_a_softmax_with_rows_of_nan(name, dtype):
    fn, generator = ORDERINGS_OF_SOFTMAX[name], np.random.default_rng(3)
    x = np.stack([generator.permutation(9) for _ in range(12)]) + np.arange(12)[:, None] / 64
    x[1, 4], x[2], x[3, 8], x[4], x[5, 0] = np.nan, np.nan, np.inf, -np.inf, -np.inf
    with jax.enable_x64(dtype == np.float64):
        x = x.astype(dtype)
        _assert_identical(to_onnx(fn, [(("B", 9), dtype)])(x), jax.jit(fn)(x))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("negative", [False, True])
def test_partition_keeps_all_values_whatever_the_sign_of_nan(negative, dtype):
    with jax.enable_x64(dtype == np.float64):
        x = _with_signs(np.random.default_rng(2).choice(SPECIAL, (40, 9)).astype(dtype), negative)
        program = to_onnx(lambda x: (jnp.partition(x, 3, 1), jnp.argpartition(x, 3, 1)), [x])
        values, places = (np.float64(result) for result in program(x))
        np.testing.assert_array_equal(np.sort(values), np.sort(x.astype(np.float64)))
        np.testing.assert_array_equal(np.sort(places), np.broadcast_to(np.arange(9), (40, 9)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, jnp.bfloat16])
@pytest.mark.parametrize("opset", [23, 26])
def test_no_ordering_computes_in_double_precision(dtype, opset):
    for fn in ORDERINGS.values():
        graph = to_onnx(fn, [(("B", "N + 8"), dtype)], opset=opset).model.graph
        types = {value.dtype for node in graph.all_nodes() for value in (*node.inputs, *node.outputs) if value}
        assert ir.DataType.DOUBLE not in types


@pytest.mark.parametrize("fn", [lax.approx_max_k, lax.approx_min_k])
def test_approx_top_k_loses_no_number_beside_nan(fn):
    x = np.array([np.nan, 1, 2, np.nan, 5, 4, 3], np.float32)
    values, places = to_onnx(lambda x: fn(x, 7), [x])(x)
    np.testing.assert_array_equal(np.sort(values), np.sort(x))
    assert sorted(places) == list(range(7))


def test_a_position_found_by_argmax_or_top_k_is_known_to_be_within_the_axis():
    def fn(x):
        return x[jnp.argmax(x)], x[lax.top_k(x, 2)[1]]

    graph = to_onnx(fn, [(("N + 1",), np.float32)]).model.graph
    assert not {"Clip", "Min", "Max", "And"} & {node.op_type for node in graph}


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
