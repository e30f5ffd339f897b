"""Operators that are whole formulas, with symbols that may be 0."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, nn
from jax2onnx_core import Call, bind_composite, to_onnx

W = np.cos(np.arange(48.0)).reshape(3, 16).astype(np.float32)
R = np.sin(np.arange(64.0)).reshape(4, 16).astype(np.float32)
QKV = [("B", "T", 2, 4), ("B", "S", 2, 4), ("B", "S", 2, 4)]
SIZES = [dict(zip("BTS", sizes, strict=True)) for sizes in itertools.product((0, 2), (0, 3), (0, 4))]


def by_hand(q, k, v):
    return jnp.einsum("bnts,bsnh->btnh", nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k) / 2, -1), v)


def twice(q, k, v):
    """With an axis that the queries alone have."""
    return jax.vmap(lambda q: by_hand(q, k, v), 1, 1)(jnp.stack([q, q + q], 1))


def masked(q, k, v):
    seen = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])
    logits = jnp.where(seen, jnp.einsum("btnh,bsnh->bnts", q, k) / 2, -1e30)
    return jnp.einsum("bnts,bsnh->btnh", nn.softmax(logits, -1), v)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def lstm(x, h, c):
    def step(state, row):
        h, c = state
        i, g, f, o = jnp.split(row @ W + h @ R, 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), x)


def rnn(x, h):
    return lax.scan(lambda h, row: (jnp.tanh(row @ W[:, :4] + h @ R[:, :4]),) * 2, h, x)


def group_norm(groups):
    def norm(x):
        def original():
            grouped = x.reshape(x.shape[0], x.shape[1] * x.shape[2], groups, 8 // groups)
            deviations = grouped - grouped.mean((1, 3), keepdims=True)
            return (deviations * lax.rsqrt((deviations**2).mean((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)

        call = Call(x, np.ones(8, np.float32), np.zeros(8, np.float32), groups=groups, epsilon=1e-5)
        return bind_composite("nn.group_norm", call, original)

    # What the kernel reads is a value of the model's own, whose memory is nowhere if it is empty.
    return lambda x: norm(jnp.sin(x))


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (by_hand, QKV),
        (masked, QKV),
        (nn.dot_product_attention, QKV),
        (lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), QKV),
        (twice, [("B", 5, "T", 4), ("B", "S", "T", 4), ("B", "S", "T", 4)]),
        (layer_norm, [("B", "T", 8)]),
        (lambda x: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6), [("B", "T", 8)]),
        (lstm, [("T", "B", 3), ("B", 4), ("B", 4)]),
        (rnn, [("T", "B", 3), ("B", 4)]),
        (lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 3), "nearest"), [("B", 4, 4, 3)]),
        (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [("B", 4, 4, 3)]),
        (lambda x: x.mean((1, 2)), [("B", 4, 4, 3)]),
        (lambda x: nn.softmax(x, -1), [("B", "T")]),
        (group_norm(4), [("B", "T", "S", 8)]),
        (group_norm(8), [("B", "T", "S", 8)]),
    ],
    ids=[
        "attention", "causal attention", "dot product attention", "causal dot product attention", "attention under vmap", "layer norm", "RMS norm", "LSTM", "RNN",
        "resize", "pooling", "mean of space", "softmax", "group norm", "instance norm",
    ],
)  # fmt: skip
def test_at_size_0(function, inputs):
    symbols = sorted({dim for shape in inputs for dim in shape if isinstance(dim, str)})
    program = to_onnx(function, inputs, constraints=[f"{symbol} >= 0" for symbol in symbols])
    rng = np.random.default_rng(0)
    for sizes in SIZES:
        arrays = [rng.normal(size=[sizes.get(dim, dim) for dim in shape]).astype(np.float32) for shape in inputs]
        for got, want in zip(jax.tree.leaves(program(*arrays)), jax.tree.leaves(function(*arrays)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_where_no_symbol_may_be_0_attention_is_not_guarded():
    program = to_onnx(by_hand, QKV)
    assert [node.op_type for node in program.model.graph].count("Attention") == 1


def test_rows_that_see_no_key_are_nan():
    def attention(q, k, v, seen):
        logits = jnp.where(seen, jnp.einsum("btnh,bsnh->bnts", q, k), -jnp.inf)
        return jnp.einsum("bnts,bsnh->btnh", nn.softmax(logits, -1), v)

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 3, 2, 4)).astype(np.float32) for _ in range(3))
    seen = np.ones((2, 1, 3, 3), bool)
    seen[1, :, 2] = False
    program = to_onnx(attention, [q, k, v, seen])
    assert "Attention" in [node.op_type for node in program.model.graph]
    np.testing.assert_allclose(program(q, k, v, seen), attention(q, k, v, seen), rtol=1e-4)


@pytest.mark.parametrize("scale", [-1.0, 0.0])
def test_attention_with_a_factor_that_is_not_positive(scale):
    q = np.random.default_rng(0).normal(size=(2, 3, 2, 4)).astype(np.float32)
    program = to_onnx(lambda x: nn.dot_product_attention(x, x, x, scale=scale), [q])
    np.testing.assert_allclose(program(q), nn.dot_product_attention(q, q, q, scale=scale), rtol=1e-4)
