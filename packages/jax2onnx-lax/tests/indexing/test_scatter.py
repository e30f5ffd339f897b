"""The `scatter` family against JAX over random valid parameters, repeated indices included."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import MODES, assert_each_equals_jax, assert_equals_jax, filled, index_arrays, windows
from jax import lax
from jax2onnx_core import to_onnx

PROMISE = lax.GatherScatterMode.PROMISE_IN_BOUNDS
SCATTERS = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "sub": lax.scatter_sub,
    "mul": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


@given(st.data())
def test_scatter_equals_jax_for_any_dimension_numbers(data):
    chosen = data.draw(windows())
    mode = data.draw(st.sampled_from([*MODES, PROMISE]))
    name = data.draw(st.sampled_from(sorted(SCATTERS)))
    scatter, is_promise_kept = SCATTERS[name], name == "set" and mode == PROMISE
    indices = data.draw(index_arrays(chosen, in_range=is_promise_kept))
    dtype = data.draw(st.sampled_from([np.float32, np.int32, np.uint8]))
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=chosen.offsets, inserted_window_dims=chosen.dropped,
        scatter_dims_to_operand_dims=chosen.start_index_map,
        operand_batching_dims=chosen.batched, scatter_indices_batching_dims=chosen.batch_axes,
    )  # fmt: skip

    def fn(x, updates, i=indices):
        return scatter(x, i, updates, numbers, mode=mode)

    args = [filled(chosen.operand, dtype), filled(chosen.result, dtype, seed=1)]
    with jax.enable_x64(True):
        assert_equals_jax(fn, *args, *([] if data.draw(st.booleans()) else [indices]))


@pytest.mark.parametrize("mode", ["drop", "clip"])
@pytest.mark.parametrize("name", ["set", "add", "mul", "max"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint64, np.uint32, np.int8])
def test_the_extremes_of_every_dtype_as_an_index(dtype, name, mode):
    limits = np.iinfo(dtype)
    indices = np.array([limits.min, limits.max, limits.min + 1, limits.max - 4, 5, 4], dtype)
    with jax.enable_x64(True):
        x = filled((5,), np.float64)
        assert_equals_jax(lambda x, i: getattr(x.at[i], name)(2.0, mode=mode), x, indices)
        assert_each_equals_jax(lambda x, i: getattr(x.at[i], name)(2.0, mode=mode), [(x, i) for i in indices])


@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_a_window_behind_the_end_of_zeros_is_dropped_or_moved(mode):
    def fn(u, other):
        return jnp.zeros(5).at[jnp.asarray(other.shape[0])].set(u, mode=mode)

    program = to_onnx(fn, [(), ("b",)])
    for size in (3, 9):
        args = np.float32(3), np.zeros(size, np.float32)
        np.testing.assert_array_equal(program(*args), np.asarray(fn(*args)))


def test_the_last_of_many_updates_wins_with_several_threads():
    indices = np.random.default_rng(0).integers(0, 4, 3000).astype(np.int32)
    updates = filled((3000, 64))
    for _ in range(3):
        assert_equals_jax(lambda x, i, u: x.at[i].set(u), np.zeros((4, 64), np.float32), indices, updates)


@pytest.mark.parametrize(
    ("indices", "fn", "operator"),
    [
        ([4, 1], lambda x, i, u: x.at[i].add(u, unique_indices=True), "ScatterElements"),
        ([4, 1], lambda x, i, u: x.at[i].mul(u, unique_indices=True, mode="clip"), "ScatterElements"),
        ([4, 1], lambda x, i, u: x.at[i].set(u, unique_indices=True, mode="clip"), "ScatterElements"),
        ([4, 1], lambda x, i, u: x.at[i].set(u, unique_indices=True, mode="promise_in_bounds"), "ScatterND"),
        ([4, 1], lambda x, i, u: x.at[i % 5].add(u, unique_indices=True), "ScatterND"),
        ([4, 1], lambda x, i, u: x.at[i, i].add(u[:, 0], unique_indices=True), "ScatterElements"),
        ([4, 1], lambda x, i, u: x.at[i % 5, i % 3].add(u[:, 0], unique_indices=True), "ScatterND"),
        ([4, 1], lambda x, i, u: x.at[np.array([4, 3])].add(u, mode="clip"), "ScatterND"),
        ([4, 1], lambda x, i, u: x.at[np.array([4, 5])].add(u, mode="clip"), "ScatterElements"),
        ([4, 1], lambda x, i, u: x.at[np.array([4, 5]), i % 3].add(u[:, 0], mode="clip"), "ScatterElements"),
        ([4, 1], lambda x, i, u: x.at[np.array([4, 3]), i].add(u[:, 0], mode="clip"), "ScatterND"),
    ],
)
def test_updates_are_parallel_only_where_none_is_moved_to_the_place_of_another(indices, fn, operator):
    program = assert_equals_jax(fn, filled((5, 3)), np.array(indices, np.int32), filled((2, 3), seed=1))
    assert operator in [node.op_type for node in program.model.graph]


def test_updates_that_are_dropped_keep_that_of_the_last_row():
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (1, 0))
    indices = np.array([[0, 4], [7, 4], [0, 2]], np.int32)

    def fn(x, i, u):
        return lax.scatter_add(x, i % jnp.array([8, 5]), u, numbers, unique_indices=True, mode="drop")

    program = assert_equals_jax(fn, filled((5, 3)), indices, filled((3, 3), seed=1))
    assert "ScatterND" not in [node.op_type for node in program.model.graph]


def test_sums_are_taken_in_order():
    indices = np.random.default_rng(0).integers(0, 3, 2000).astype(np.int32)
    updates = np.random.default_rng(1).integers(-9, 9, (2000, 32)).astype(np.float32)
    assert_equals_jax(lambda x, i, u: x.at[i].add(u), np.zeros((3, 32), np.float32), indices, updates)


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_keep_every_nan(name):
    x = np.array([np.nan, 1, 2, np.inf, -0.0], np.float32)
    updates = np.array([3, np.nan, 7, -np.inf, 0, 5], np.float32)
    indices = np.array([0, 1, 1, 3, 4, 9], np.int32)
    assert_equals_jax(lambda x, i, u: getattr(x.at[i], name)(u), x, indices, updates)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float64, np.int8, np.uint32, np.int64, np.bool_])
@pytest.mark.parametrize("name", ["set", "add", "mul", "max"])
def test_every_dtype(name, dtype):
    if dtype == np.bool_ and name in ("add", "mul"):
        pytest.skip("JAX has no arithmetic of booleans")
    with jax.enable_x64(True):
        x, updates = np.arange(5).astype(dtype), np.array([1, 0, 1, 1]).astype(dtype)
        indices = np.array([1, 1, -1, 7], np.int32)
        wide = np.bool_ if dtype == np.bool_ else np.float64
        assert_equals_jax(lambda x, i, u: getattr(x.at[i], name)(u).astype(wide), x, indices, updates)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x, i, u: x.at[i].set(u, mode="drop"), id="drop"),
        pytest.param(lambda x, i, u: x.at[i].add(u), id="add"),
        pytest.param(lambda x, i, u: x.at[:, 1].set(u[0, 0]), id="column"),
        pytest.param(lambda x, i, u: x.at[i, i].max(u[:, 0], mode="clip"), id="two indices"),
        pytest.param(lambda x, i, u: x.at[jnp.arange(x.shape[0])].mul(x), id="arange"),
        pytest.param(lambda x, i, u: x.at[1:].set(0), id="tail"),
        pytest.param(lambda x, i, u: x.at[-1].set(1), id="last"),
        pytest.param(lambda x, i, u: jax.vmap(lambda r, j: r.at[j].set(9))(u, i), id="batched"),
        pytest.param(lambda x, i, u: jax.grad(lambda x: (x[i % x.shape[0]] ** 2).sum())(x), id="gradient of x[i]"),
    ],
)
def test_symbolic_updates_equal_jax_at_every_size(fn):
    from jax2onnx_core import to_onnx

    program = to_onnx(fn, [("N", 4), (("T",), np.int32), ("T", 4)])
    for rows, count in [(1, 1), (2, 3), (5, 2), (3, 7)]:
        x, updates = filled((rows, 4)), filled((count, 4), seed=1)
        indices = np.random.default_rng(rows).integers(-rows - 2, rows + 3, count).astype(np.int32)
        np.testing.assert_allclose(program(x, indices, updates), np.asarray(fn(jnp.asarray(x), indices, updates)))


def test_apply_meets_repeated_indices_one_after_another():
    indices = np.array([0, 2, 0, 9, -1], np.int32)
    assert_equals_jax(lambda x, i: x.at[i].apply(lambda v: 2 * v + 1), filled((4, 3)), indices)


def test_complex_apply():
    from jax2onnx_core import to_onnx

    x = (filled((4,)) + 1j * filled((4,), seed=1)).astype(np.complex64)
    indices = np.array([0, 2, 0], np.int32)

    def fn(x, i):
        return x.at[i].apply(lambda v: v * (1 + 2j))

    np.testing.assert_allclose(
        to_onnx(fn, [x, indices])(x, indices), np.asarray(fn(jnp.asarray(x), indices)), rtol=1e-6
    )


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_repeated_indices_are_one_scatternd_where_the_target_keeps_their_order(name):
    x, updates = filled((4, 3)), filled((3, 3), seed=1)
    indices = np.array([2, 0, 2], np.int32)
    program = assert_equals_jax(lambda x, i, u: getattr(x.at[i], name)(u), x, indices, updates, target="onnx")
    assert [node.op_type for node in program.model.graph].count("ScatterND") == 1


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_narrow_indices_meet_each_element_of_a_larger_batch(dtype):
    x, indices = filled((300, 5), np.complex64), (np.arange(300) % 5).astype(dtype)
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    def fn(x, indices):
        return jax.vmap(lambda row, i: lax.scatter_mul(row, i[None, None], jnp.full(1, 2, x.dtype), numbers))(
            x, indices
        )

    np.testing.assert_allclose(to_onnx(fn, [x, indices])(x, indices), np.asarray(fn(jnp.asarray(x), indices)))
