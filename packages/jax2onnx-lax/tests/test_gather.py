"""`gather` against JAX over random valid parameters, and the forms that users write."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import MODES, assert_equals_jax, filled, index_arrays, windows
from jax import lax

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
    indices = data.draw(index_arrays(chosen, in_range=mode == PROMISE))
    fn, *args = _gather(chosen, indices, mode, constant=data.draw(st.booleans()))
    with jax.enable_x64(True):
        assert_equals_jax(fn, *args)


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
    from jax2onnx_core import to_onnx

    got = to_onnx(program_fn, [x, indices])(x, indices)
    want = np.asarray(program_fn(jnp.asarray(x), indices))
    np.testing.assert_array_equal(np.asarray(got).view(np.float32), want.view(np.float32))


def test_typed_keys_are_taken():
    keys = jax.random.split(jax.random.key(0), 5)
    from jax2onnx_core import to_onnx

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
    ],
)
def test_symbolic_slicing_equals_jax_at_every_size(fn):
    from jax2onnx_core import to_onnx

    program = to_onnx(fn, [("B", "N")])
    for rows, columns in [(1, 1), (1, 2), (2, 3), (3, 5), (4, 4), (7, 2)]:
        x = filled((rows, columns))
        np.testing.assert_array_equal(program(x), np.asarray(fn(jnp.asarray(x))))
