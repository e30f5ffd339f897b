"""Functions of JAX as whole models, from linear algebra to a training step: equal to JAX in ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax2onnx_core import to_onnx

NOISE = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return NOISE.normal(size=shape).astype(np.float32)


def assert_same(actual: Any, expected: Any, rtol: float = 1e-4) -> None:
    """Leaf by leaf, up to a small part of the largest number."""
    computed, wanted = jax.tree_util.tree_leaves(actual), jax.tree_util.tree_leaves(expected)
    assert len(computed) == len(wanted)
    for a, e in zip(computed, wanted, strict=True):
        assert np.asarray(a).dtype == np.asarray(e).dtype
        np.testing.assert_allclose(a, e, rtol=rtol, atol=1e-5 * max(1.0, np.abs(np.asarray(e)).max()))


def test_singular_values_of_64_by_64():
    x = normal(64, 64)
    u, s, vh = to_onnx(jnp.linalg.svd, [x])(x)
    assert_same(s, jnp.linalg.svd(x, compute_uv=False))
    assert_same((u * s) @ vh, x, rtol=1e-3)
    np.testing.assert_allclose(u.T @ u, np.eye(64), atol=1e-4)
    np.testing.assert_allclose(vh @ vh.T, np.eye(64), atol=1e-4)


def test_solve():
    a, b = normal(32, 32) + 8 * np.eye(32, dtype=np.float32), normal(32, 3)
    assert_same(to_onnx(jnp.linalg.solve, [a, b])(a, b), jnp.linalg.solve(a, b))


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey], ids=["typed", "raw"])
def test_normal_numbers_of_a_key(make):
    """The words of the random numbers are JAX's; the last steps to a normal number round as the runtime does."""
    key = make(7)
    assert_same(
        to_onnx(lambda k: jax.random.normal(k, (1000,)), [key])(key), jax.random.normal(key, (1000,)), rtol=1e-5
    )


def test_random_bits_are_the_same():
    key = jax.random.key(7)
    np.testing.assert_array_equal(
        to_onnx(lambda k: jax.random.bits(k, (1000,)), [key])(key), jax.random.bits(key, (1000,))
    )


def test_spectrum_of_real_signals():
    x = normal(3, 240)
    packed = to_onnx(jnp.fft.rfft, [x])(x)
    assert_same(packed, jnp.fft.rfft(x))


def lstm_in_reverse(weights, xs):
    """The states of an LSTM cell that reads a sequence from its end."""

    def step(state, x):
        hidden, cell = state
        i, f, g, o = jnp.split(x @ weights["in"] + hidden @ weights["hidden"] + weights["bias"], 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    start = jnp.zeros((xs.shape[1], weights["hidden"].shape[0]), xs.dtype)
    return lax.scan(step, (start, start), xs, reverse=True)


@pytest.mark.parametrize("length", [1, 7, 20])
def test_lstm_scanned_in_reverse(length):
    weights = {"in": normal(5, 64), "hidden": normal(16, 64), "bias": normal(64)}
    program = to_onnx(lambda xs: lstm_in_reverse(weights, xs), [("T", "B", 5)])
    xs = normal(length, 3, 5)
    assert_same(program(xs), lstm_in_reverse(weights, xs))


def initial_mlp(*widths: int) -> list[dict[str, np.ndarray]]:
    return [{"w": normal(a, b) / np.float32(np.sqrt(a)), "b": normal(b)} for a, b in itertools.pairwise(widths)]


def mlp(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def test_hessian_of_an_mlp():
    params, x = initial_mlp(6, 16, 16, 1), normal(6)
    hessian = jax.hessian(lambda v: mlp(params, v)[0])
    computed = np.asarray(to_onnx(hessian, [x])(x))
    assert_same(computed, hessian(x))
    np.testing.assert_allclose(computed, computed.T, atol=1e-4)


def test_training_steps_with_adam():
    """Parameters and the optimiser's state go in and come out; three steps in a row stay JAX's."""
    optimiser = optax.adam(1e-2)

    def step(params, state, x, y):
        loss, gradients = jax.value_and_grad(lambda p: jnp.mean((mlp(p, x) - y) ** 2))(params)
        updates, state = optimiser.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    params = initial_mlp(4, 8, 2)
    state = optimiser.init(params)
    x, y = normal(16, 4), normal(16, 2)
    program = to_onnx(step, [params, state, x, y])
    exported, original = (params, state), (params, state)
    for _ in range(3):
        *exported, loss = program(*exported, x, y)
        *original, expected = jax.jit(step)(*original, x, y)
        assert_same(exported, original)
        assert_same(loss, expected)
