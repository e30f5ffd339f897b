"""`gather` against JAX over random valid parameters, and the forms that users write."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from indexing_strategies import MODES, assert_each_equals_jax, assert_equals_jax, filled, index_arrays, windows
from jax import lax
from jax.scipy.ndimage import map_coordinates
from jax2onnx_core import to_onnx
from jax2onnx_core.plugins.errors import UndecidedDimensionError

PROMISE = lax.GatherScatterMode.PROMISE_IN_BOUNDS


def _gather(chosen, indices, mode, *, constant):
    numbers = lax.GatherDimensionNumbers(
        offset_dims=chosen.offsets, collapsed_slice_dims=chosen.dropped, start_index_map=chosen.start_index_map,
        operand_batching_dims=chosen.batched, start_indices_batching_dims=chosen.batch_axes,
    )  # fmt: skip

    def fn(x, i=indices):
        return lax.gather(x, i, numbers, chosen.sizes, mode=mode)

    x = filled(chosen.operand)
    return (fn, x) if constant else (fn, x, indices)


@given(st.data())
def test_gather_equals_jax_for_any_dimension_numbers(data):
    chosen = data.draw(windows())
    mode = data.draw(st.sampled_from([*MODES, PROMISE]))
    indices = data.draw(index_arrays(chosen))
    fn, *args = _gather(chosen, indices, mode, constant=data.draw(st.booleans()))
    with jax.enable_x64(True):
        assert_equals_jax(fn, *args)


_FAR = [2**31 - 1, -(2**31), 7, 6, 5, 4, -5, -6, -7]


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x, i: x[i], id="rows"),
        pytest.param(lambda x, i: x[:, i], id="columns"),
        pytest.param(lambda x, i: x[i, i[::-1]], id="elements"),
        pytest.param(lambda x, i: x[i[0]], id="row"),
        pytest.param(lambda x, i: x[i[0], i], id="row and columns"),
        pytest.param(lambda x, i: x[i, 1:3], id="windows"),
        pytest.param(lambda x, i: jax.vmap(lambda j: x[j])(i), id="mapped indices"),
        pytest.param(lambda x, i: jax.vmap(lambda row: row[i])(x), id="mapped rows"),
        pytest.param(lambda x, i: jax.vmap(lambda row, j: row[j])(x, i[: x.shape[0]]), id="mapped together"),
        pytest.param(jax.grad(lambda x, i: (x[i] ** 2).sum()), id="derivative"),
        pytest.param(jax.grad(lambda x, i: (x[i, i[::-1]] ** 2).sum()), id="derivative of elements"),
    ],
)
def test_default_indexing_clamps_what_is_out_of_range(fn):
    x = filled((5, 5))
    for spec in ((5, 5), ("N", "N")):
        program = to_onnx(fn, [spec, ((9,), np.int32)], constraints=[] if spec == (5, 5) else ["N <= 9", "N >= 3"])
        for first in range(len(_FAR)):
            indices = np.roll(np.array(_FAR, np.int32), first)
            np.testing.assert_allclose(program(x, indices), jax.jit(fn)(x, indices))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
def test_map_coordinates_in_one_dimension_at_and_beyond_the_border(mode, order):
    places = np.array([-9.3, -5, -1.4, -1, -0.5, -0.3, 0, 0.4, 3.9, 4, 4.3, 4.5, 4.6, 5, 5.5, 6, 9.2, 20], np.float32)
    assert_equals_jax(lambda x, i: map_coordinates(x, [i], order, mode=mode, cval=2.0), filled((5,)), places)


_EXTREMES = [
    np.array([-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 5, 2**32, -5, -6, 4, 5], np.int64),
    np.array([-(2**31), 2**31 - 1, -5, -6, 5], np.int32),
    np.array([2**64 - 1, 2**63, 2**63 - 1, 2**32, 5, 4], np.uint64),
    np.array([2**32 - 1, 2**31, 5, 4], np.uint32),
    np.array([-128, 127, -5], np.int8),
    np.array([255, 128, 5], np.uint8),
]


@pytest.mark.parametrize("indices", _EXTREMES, ids=lambda i: i.dtype.name)
@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_the_extremes_of_every_dtype_as_an_index(mode, indices):
    with jax.enable_x64(True):
        x = filled((5,), np.float64)
        assert_equals_jax(lambda x, i: x.at[i].get(mode=mode), x, indices)
        assert_equals_jax(lambda x, i: (x[:, None] * x).at[i, i].get(mode=mode), x, indices)
        calls = [(x, i) for i in indices]
        assert_each_equals_jax(lambda x, i: x.at[i].get(mode=mode), calls)
        assert_each_equals_jax(lambda x, i: lax.dynamic_slice(x, (i,), (2,)), calls)


@pytest.mark.parametrize(
    ("fn", "dtype"),
    [
        pytest.param(lambda x, i: x[jnp.clip(i, 0, 5)], np.int32, id="clip"),
        pytest.param(lambda x, i: x[jnp.minimum(i, 5)], np.uint8, id="minimum of unsigned"),
        pytest.param(lambda x, i: x[i % 6], np.int32, id="remainder"),
        pytest.param(lambda x, i: x[lax.rem(i, 6)], np.int32, id="truncated remainder"),
        pytest.param(lambda x, i: x[lax.div(i % 6, 2) * 2 + 1], np.int32, id="arithmetic"),
        pytest.param(lambda x, i: x[3 - i % 4], np.int32, id="difference"),
        pytest.param(lambda x, i: x[i & 3], np.int32, id="bits"),
        pytest.param(lambda x, i: x[jnp.where(i > 0, 5, 0)], np.int32, id="where"),
        pytest.param(lambda x, i: x[(i > 0).astype(int)], np.int32, id="condition"),
        pytest.param(lambda x, i: x[jnp.argsort(x[:, 0])], np.int32, id="order"),
        pytest.param(lambda x, i: x[jnp.argmax(x, 0)], np.int32, id="argmax"),
        pytest.param(lambda x, i: lax.fori_loop(0, 6, lambda k, c: c + x[k], x[0]), np.int32, id="loop"),
        pytest.param(lambda x, i: lax.fori_loop(0, 6, lambda k, c: c.at[k].add(1), x), np.int32, id="update in a loop"),
        pytest.param(lambda x, i: lax.scan(lambda c, k: (c + x[k], k), x[0], jnp.arange(6)), np.int32, id="scan"),
    ],
)
def test_an_index_that_is_seen_to_be_in_range_is_not_clamped(fn, dtype):
    indices = np.array([0, 3, 100, 255] if np.dtype(dtype).kind == "u" else [0, 3, 100, -100], dtype)
    program = assert_equals_jax(fn, filled((6, 3)), indices)
    assert "Clip" not in [node.op_type for node in program.model.graph.all_nodes()]


def test_arithmetic_that_wraps_around_bounds_nothing():
    def fn(x, i):
        return x[jnp.minimum(jnp.maximum(i, 0) + jnp.maximum(i, 0), 5)]

    assert_equals_jax(fn, filled((6,)), np.array([1, 2**30, 2**31 - 1], np.int32))


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float64, np.int8, np.uint16, np.uint32, np.int64, np.bool_, jnp.bfloat16]
)
def test_fill_value_is_jax_s_for_every_dtype(dtype):
    with jax.enable_x64(True):
        x = np.arange(6).astype(dtype)
        indices = np.array([-7, -1, 0, 5, 6], np.int32)
        assert_equals_jax(lambda x, i: jnp.take(x, i).astype(np.float64), x, indices)


def test_complex_fill_value_has_no_imaginary_part():
    x = (np.arange(4) + 1j * np.arange(4)).astype(np.complex64)
    program_fn = lambda x, i: jnp.take(x, i)  # noqa: E731
    indices = np.array([0, 9], np.int32)
    got = to_onnx(program_fn, [x, indices])(x, indices)
    want = np.asarray(program_fn(jnp.asarray(x), indices))
    np.testing.assert_array_equal(np.asarray(got).view(np.float32), want.view(np.float32))


def test_typed_keys_are_taken():
    keys = jax.random.split(jax.random.key(0), 5)
    fn = lambda k, i: k[i]  # noqa: E731
    indices = np.array([3, -1], np.int32)
    got = to_onnx(fn, [keys, indices])(keys, indices)
    np.testing.assert_array_equal(jax.random.key_data(got), jax.random.key_data(fn(keys, indices)))


def test_uint64_index_beyond_int64_is_clipped_to_the_end():
    with jax.enable_x64(True):
        indices = np.array([0, 2, 2**63 + 5], np.uint64)
        assert_equals_jax(lambda x, i: jnp.take(x, i, mode="clip"), filled((4,)), indices)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x: x[1:-1, -3:], id="bounds from the end"),
        pytest.param(lambda x: x[::2, ::-1], id="strides"),
        pytest.param(lambda x: x[::-2], id="negative stride"),
        pytest.param(lambda x: x[:, -1], id="last"),
        pytest.param(lambda x: x[: x.shape[0] // 2], id="half"),
        pytest.param(lambda x: x[x.shape[0] // 2 :, 1:], id="second half"),
        pytest.param(lambda x: x[2::3], id="start and stride"),
        pytest.param(lambda x: jnp.roll(x, 1, axis=0), id="roll"),
        pytest.param(lambda x: x[jnp.arange(x.shape[0])[::-1]], id="reversed arange"),
        pytest.param(lambda x: x[jnp.arange(x.shape[0]), 0], id="arange and column"),
        pytest.param(lambda x: x.at[1:-1].get(), id="at get"),
        pytest.param(lambda x: x[: -(2**63)], id="a bound that is the least int64"),
        pytest.param(lambda x: x.at[np.int64(-(2**63))].get(mode="fill"), id="an index that is the least int64"),
    ],
)
def test_symbolic_slicing_equals_jax_at_every_size(fn):
    program = to_onnx(fn, [("B", "N")])
    for rows, columns in [(1, 1), (1, 2), (2, 3), (3, 5), (4, 4), (7, 2)]:
        x = filled((rows, columns))
        np.testing.assert_array_equal(program(x), np.asarray(fn(jnp.asarray(x))))


_BOUND = st.tuples(st.integers(-2, 2), st.integers(-3, 3)) | st.none()


@given(st.tuples(_BOUND, _BOUND), st.sampled_from([1, 2, 3, -1, -2]), st.sampled_from([8, "N", "b"]))
def test_slices_with_symbolic_bounds_have_jax_s_rows(linear, step, size):
    def fn(x, other):
        start, stop = (None if bound is None else bound[0] * other.shape[0] + bound[1] for bound in linear)
        return x[start:stop:step]

    try:
        program = to_onnx(fn, [(size, 2), ("b",)])
    except UndecidedDimensionError:
        reject()  # JAX has to know the sign of a bound
    for other in (1, 2, 3, 4, 7):
        rows = {8: 8, "N": 6, "b": other}[size]
        x, y = filled((rows, 2)), np.zeros(other, np.float32)
        np.testing.assert_array_equal(program(x, y), np.asarray(fn(x, y)))
