"""Attention whose operands have several types: a bias of float32 beside bfloat16 operands."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import to_onnx

RANDOM = np.random.default_rng(0)
OPERANDS = [jnp.asarray(RANDOM.standard_normal((1, 4, 2, 8)), jnp.bfloat16) for _ in range(3)]
BIAS = jnp.asarray(RANDOM.standard_normal((1, 2, 4, 4)), jnp.float32)


def biased(query, key, value, bias):
    return jax.nn.dot_product_attention(query, key, value, bias=bias)


def total(*operands):
    return biased(*operands).astype(jnp.float32).sum()


def assert_near(got, want):
    got, want = (np.asarray(x, np.float32) for x in (got, want))
    np.testing.assert_allclose(got, want, atol=0.02 * np.abs(want).max())


def test_a_bias_of_another_type():
    program = to_onnx(biased, [*OPERANDS, BIAS])
    assert_near(program(*OPERANDS, BIAS), biased(*[*OPERANDS, BIAS]))


def test_the_gradient_of_a_bias_of_another_type():
    gradient = jax.grad(total, argnums=(0, 1, 2, 3))
    program = to_onnx(lambda *operands: gradient(*operands), [*OPERANDS, BIAS])
    for got, want in zip(program(*OPERANDS, BIAS), gradient(*OPERANDS, BIAS), strict=True):
        assert got.dtype == want.dtype
        assert_near(got, want)
