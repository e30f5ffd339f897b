"""Functions of JAX that ask for the number of a dimension, over symbolic ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import RuntimeInputError


def _of_size(x: jax.Array) -> jax.Array:
    return jax.random.permutation(jax.random.key(3), x)


@pytest.mark.parametrize("size", [1, 2, 1625, 1626, 2000])
def test_a_permutation_is_sorted_as_often_as_that_of_jax(size):
    x = jnp.arange(float(size))
    np.testing.assert_array_equal(to_onnx(_of_size, [("N",)])(x), _of_size(x))


@pytest.mark.parametrize("function", [jnp.squeeze, lambda x: x.squeeze(), lambda x: jnp.cov(x, rowvar=False)])
def test_an_axis_of_one_element_that_would_be_taken_out_is_refused(function):
    with pytest.warns(UserWarning, match="N != 1"):
        program = to_onnx(function, [(4, "N")])
    with pytest.raises(RuntimeInputError, match="N != 1"):
        program(np.zeros((4, 1), np.float32))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(program(x), function(jnp.asarray(x)), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_indices_wrap_around_an_axis_of_symbolic_size(axis):
    program = to_onnx(lambda x, i: jnp.take(x, i, axis, mode="wrap"), [("N", "M"), ((5,), "int32")])
    indices = np.array([-7, -1, 0, 5, 9], np.int32)
    for shape in [(1, 2), (3, 1), (4, 5)]:
        x = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(program(x, indices), jnp.take(x, indices, axis, mode="wrap"))
