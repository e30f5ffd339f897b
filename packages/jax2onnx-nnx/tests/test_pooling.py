"""Pooling layers over axes that may be smaller than the window, against Flax."""

from __future__ import annotations

import flax.linen as nn
import jax
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx


def _assert_equals_flax(program, fn, sizes, rtol=1e-6, atol=0.0):
    """JAX's results for all sizes are compiled as one program: many small ones take far longer."""
    inputs = [np.random.default_rng(size).standard_normal((2, size, 2)).astype(np.float32) for size in sizes]
    for x, want in zip(inputs, jax.jit(lambda each: list(map(fn, each)))(inputs), strict=True):
        got = program(x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", ["VALID", "SAME", ((1, 0),)])
@pytest.mark.parametrize("layer", [nn.avg_pool, nn.max_pool, nnx.min_pool])
def test_windows_may_be_larger_than_a_symbolic_axis(layer, padding, stride):
    fn = jax.jit(lambda x: layer(x, (3,), (stride,), padding))
    program = to_onnx(fn, [("B", "T", 2)])
    _assert_equals_flax(program, fn, range(1, 7))


def test_averages_without_padding_may_be_over_windows_larger_than_a_symbolic_axis():
    fn = jax.jit(lambda x: nn.avg_pool(x, (4,), (3,), ((1, 1),), count_include_pad=False))
    program = to_onnx(fn, [("B", "T", 2)])
    _assert_equals_flax(program, fn, range(1, 9))


def test_convolution_layer_larger_than_a_symbolic_axis():
    model = nnx.Conv(2, 3, kernel_size=(4,), padding="VALID", rngs=nnx.Rngs(0))
    _assert_equals_flax(to_onnx(model, [("B", "T", 2)]), model, range(1, 6), rtol=1e-5, atol=1e-6)
