"""`slice`, `dynamic_slice`, `dynamic_update_slice` and shapes against JAX over random parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import assert_equals_jax, filled
from jax import lax
from jax2onnx_core import to_onnx


@st.composite
def bounds(draw):
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    starts = [draw(st.integers(0, size)) for size in shape]
    limits = [draw(st.integers(start, size)) for start, size in zip(starts, shape, strict=True)]
    strides = draw(st.none() | st.tuples(*(st.integers(1, 3) for _ in shape)))
    return shape, starts, limits, strides


@given(bounds(), st.sampled_from([np.float32, np.int8, np.bool_]))
def test_slice_equals_jax(parameters, dtype):
    shape, starts, limits, strides = parameters
    assert_equals_jax(lambda x: lax.slice(x, starts, limits, strides), filled(tuple(shape), dtype))


@st.composite
def blocks(draw):
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    sizes = [draw(st.sampled_from([1, size, draw(st.integers(0, size))])) for size in shape]
    starts = [draw(st.integers(-size - 2, size + 2)) for size in shape]
    known = [draw(st.booleans()) for _ in shape]
    return tuple(shape), tuple(sizes), starts, known


def _mixed(values, known, given):
    """Starts of which some are numbers and the others operands."""
    rest, dtype = iter(given), given[0].dtype if given else np.dtype(np.int32)
    return [dtype.type(value) if fixed else next(rest) for value, fixed in zip(values, known, strict=True)]


@given(blocks(), st.sampled_from([np.int32, np.int8, np.uint8]))
def test_dynamic_slice_equals_jax(block, dtype):
    shape, sizes, starts, known = block
    starts = [abs(start) for start in starts] if dtype == np.uint8 else starts
    dynamic = [dtype(start) for start, fixed in zip(starts, known, strict=True) if not fixed]
    assert_equals_jax(
        lambda x, *given: lax.dynamic_slice(x, _mixed(starts, known, given), sizes), filled(shape), *dynamic
    )


@pytest.mark.parametrize("opset", [18, 24])
@given(block=blocks())
def test_dynamic_update_slice_equals_jax(opset, block):
    shape, sizes, starts, known = block
    dynamic = [np.int32(start) for start, fixed in zip(starts, known, strict=True) if not fixed]
    assert_equals_jax(
        lambda x, u, *given: lax.dynamic_update_slice(x, u, _mixed(starts, known, given)),
        filled(shape), filled(sizes, seed=1), *dynamic, opset=opset,
    )  # fmt: skip


@pytest.mark.parametrize("opset", [18, 23, 24])
def test_symbolic_cache_update_equals_jax_at_every_size(opset):
    def fn(cache, new, position):
        return lax.dynamic_update_slice(cache, new, (0, position, 0))

    program = to_onnx(fn, [("B", "S", 4), ("B", 2, 4), ((), np.int32)], constraints=["S >= 2"], opset=opset)
    for batch, length in [(1, 2), (3, 5), (2, 7)]:
        cache, new = filled((batch, length, 4)), filled((batch, 2, 4), seed=1)
        for position in np.array([0, 1, length - 2, length + 3, -1, -length - 4], np.int32):
            want = fn(jnp.asarray(cache), jnp.asarray(new), position)
            np.testing.assert_array_equal(program(cache, new, position), np.asarray(want))


def test_zero_length_cache_takes_the_new_rows():
    def fn(cache, new):
        return jnp.concatenate([cache, new], axis=1)[:, -cache.shape[1] - new.shape[1] :]

    program = to_onnx(fn, [(2, "S", 3), (2, "T", 3)], constraints=["S >= 0"])
    for length, added in [(0, 4), (3, 1)]:
        cache, new = filled((2, length, 3)), filled((2, added, 3), seed=1)
        np.testing.assert_array_equal(program(cache, new), np.concatenate([cache, new], axis=1))


@given(st.data())
def test_broadcast_in_dim_equals_jax(data):
    shape = data.draw(st.lists(st.integers(0, 4), min_size=0, max_size=4))
    places = sorted(data.draw(st.sets(st.integers(0, max(len(shape) - 1, 0)), max_size=len(shape)))) if shape else []
    operand = tuple(data.draw(st.sampled_from([1, shape[place]])) for place in places)
    dtype = data.draw(st.sampled_from([np.float32, np.int16, np.bool_]))
    assert_equals_jax(lambda x: lax.broadcast_in_dim(x, shape, places), filled(operand, dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint16, np.int64, np.complex64, jnp.bfloat16])
def test_iota_of_symbolic_length_has_every_dtype(dtype):
    with jax.enable_x64(True):
        program = to_onnx(lambda x: lax.broadcasted_iota(dtype, (2, x.shape[0], 3), 1), [("B",)])
        for size in (1, 5):
            got = program(np.zeros(size))
            want = np.asarray(lax.broadcasted_iota(dtype, (2, size, 3), 1))
            assert np.asarray(got).dtype == want.dtype
            np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x: x.reshape(x.shape[0] * 2, -1), id="merge and split"),
        pytest.param(lambda x: x.reshape(-1, x.shape[0]), id="two unknowns"),
        pytest.param(lambda x: jnp.repeat(x, 3, axis=1), id="repeat"),
        pytest.param(lambda x: jnp.tile(x, (2, 1, 3)), id="tile"),
        pytest.param(lambda x: jnp.stack([x, 2 * x], axis=-1), id="stack"),
        pytest.param(lambda x: jnp.flip(x, (0, 2)), id="flip"),
        pytest.param(lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], x.shape[1], *x.shape[1:])), id="broadcast"),
        pytest.param(lambda x: jnp.concatenate([x, x[:, :1], x], axis=1), id="concatenate"),
        pytest.param(lambda x: jnp.eye(x.shape[0], x.shape[1] + 1), id="eye"),
        pytest.param(lambda x: jnp.tril(jnp.ones((x.shape[1], x.shape[0]))), id="triangle"),
        pytest.param(lambda x: jnp.split(x, [1, x.shape[1]], axis=1)[0], id="split"),
        pytest.param(lambda x: jnp.moveaxis(x, 0, 2), id="transpose"),
        pytest.param(lambda x: x * x.shape[0] + jnp.arange(x.shape[1])[:, None], id="dimensions as numbers"),
    ],
)
def test_symbolic_shapes_equal_jax_at_every_size(fn):
    program = to_onnx(fn, [("B", "N", 4)])
    for rows, columns in [(1, 1), (2, 3), (5, 2)]:
        x = filled((rows, columns, 4))
        np.testing.assert_array_equal(program(x), np.asarray(fn(jnp.asarray(x))))
