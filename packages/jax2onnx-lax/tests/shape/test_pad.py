"""`pad` against JAX over random amounts: positive, negative, interior and symbolic."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import assert_equals_jax, filled
from jax import lax
from jax2onnx_core import to_onnx


@st.composite
def paddings(draw):
    shape, config = [], []
    for _ in range(draw(st.integers(1, 3))):
        size, interior = draw(st.integers(0, 4)), draw(st.integers(0, 2))
        spread = size + max(size - 1, 0) * interior
        low = draw(st.integers(-spread, 3))
        high = draw(st.integers(-(spread + low), 3))
        shape.append(size)
        config.append((low, high, interior))
    return tuple(shape), config


@given(paddings(), st.sampled_from([np.float32, np.int32, np.int16, np.bool_]), st.sampled_from([0, 1, "operand"]))
def test_pad_equals_jax(padding, dtype, value):
    shape, config = padding
    x = filled(shape, dtype)
    if value == "operand":
        assert_equals_jax(lambda x, v: lax.pad(x, v, config), x, dtype(1))
    else:
        assert_equals_jax(lambda x: lax.pad(x, dtype(value), config), x)


def test_negative_zero_is_kept():
    program = assert_equals_jax(lambda x: lax.pad(x, np.float32(-0.0), [(1, 1, 1)]), filled((3,)))
    assert np.signbit(program(filled((3,)))[0])


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x: jnp.pad(x, ((1, x.shape[0]), (x.shape[1], 0))), id="by dimensions"),
        pytest.param(lambda x: lax.pad(x, 7.0, [(0, 0, 1), (-1, x.shape[0], 2)]), id="interior of symbolic axes"),
        pytest.param(lambda x: lax.pad(x, 0.0, [(1 - x.shape[0], x.shape[1], 0), (0, 0, 0)]), id="negative symbolic"),
        pytest.param(lambda x: jnp.pad(x, 2, mode="edge"), id="edge"),
        pytest.param(lambda x: jnp.pad(x, ((0, 1), (1, 0)), constant_values=3), id="constant"),
    ],
)
def test_symbolic_pad_equals_jax_at_every_size(fn):
    program = to_onnx(fn, [("B", "N")])
    for rows, columns in [(1, 1), (2, 3), (5, 4)]:
        x = filled((rows, columns))
        np.testing.assert_array_equal(program(x), np.asarray(fn(jnp.asarray(x))))


def test_interior_padding_of_an_axis_without_elements_adds_nothing():
    program = to_onnx(lambda x: lax.pad(x[:, 1:], 7.0, [(0, 0, 0), (1, 2, 1)]), [("B", "N")])
    for columns in (1, 2, 4):
        x = filled((2, columns))
        np.testing.assert_array_equal(program(x), lax.pad(jnp.asarray(x)[:, 1:], 7.0, [(0, 0, 0), (1, 2, 1)]))
