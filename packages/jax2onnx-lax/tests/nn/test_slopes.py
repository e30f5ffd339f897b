"""Activations with a slope equal JAX's for slopes of any size."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax2onnx_core import to_onnx

X = np.array([-np.inf, -200, -3, -1, -1e-6, -0.0, 0.0, 1e-6, 2, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("function", [jax.nn.elu, jax.nn.celu, jax.nn.leaky_relu])
@pytest.mark.parametrize("slope", [0.3, 16.0, 2.0**-14, 0.0, -0.0, -1.0, 1e-30, 1e10, 1e30, np.inf, -np.inf, np.nan])
def test_a_slope_of_any_size(function, slope):
    fn = lambda x: function(x, slope)  # noqa: E731
    np.testing.assert_allclose(to_onnx(fn, [X])(X), jax.jit(fn)(X), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("function", "operator"), [(jax.nn.elu, "Elu"), (jax.nn.celu, "Celu"), (jax.nn.leaky_relu, "LeakyRelu")]
)
@pytest.mark.parametrize("slope", [2.0**-14, 16.0])
def test_an_ordinary_slope_is_an_attribute(function, operator, slope):
    program = to_onnx(lambda x: function(x, slope), [("B", 4)])
    assert [node.op_type for node in program.model.graph] == [operator]
