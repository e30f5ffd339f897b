"""`Attention` on caches: no cache is transposed, and decoding gives what JAX gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx

Cached = tuple[jax.Array, jax.Array, jax.Array]
_FULL, _TOKENS = ("B", "T", 4, 6), ("B", "T", 2, 6)


def _heads(x: jax.Array) -> jax.Array:
    return x.transpose(0, 2, 1, 3)


def tokens_first(q: Any, k: Any, v: Any, past_k: Any, past_v: Any) -> Cached:
    k, v = jnp.concatenate([past_k, k], 1), jnp.concatenate([past_v, v], 1)
    return jax.nn.dot_product_attention(q, k, v), k, v


def heads_first(q: Any, k: Any, v: Any, past_k: Any, past_v: Any) -> Cached:
    k, v = jnp.concatenate([past_k, _heads(k)], 2), jnp.concatenate([past_v, _heads(v)], 2)
    return jax.nn.dot_product_attention(q, _heads(k), _heads(v)), k, v


def by_hand(q: Any, k: Any, v: Any, past_k: Any, past_v: Any) -> Cached:
    """Causal, the last queries aligned with the last keys."""
    k, v = jnp.concatenate([past_k, _heads(k)], 2), jnp.concatenate([past_v, _heads(v)], 2)
    logits = jnp.einsum("bhqd,bhkd->bhqk", _heads(q), jnp.repeat(k, 2, 1)) / np.sqrt(6.0)
    seen = jnp.arange(k.shape[2]) <= past_k.shape[2] + jnp.arange(q.shape[1])[:, None]
    weights = jax.nn.softmax(jnp.where(seen, logits, -1e9), -1)
    return _heads(jnp.einsum("bhqk,bhkd->bhqd", weights, jnp.repeat(v, 2, 1))), k, v


@pytest.mark.parametrize(
    ("step", "past"),
    [(tokens_first, ("B", "S", 2, 6)), (heads_first, ("B", 2, "S", 6)), (by_hand, ("B", 2, "S", 6))],
)
def test_decoding_with_a_growing_cache(step: Callable[..., Cached], past: tuple[int | str, ...]) -> None:
    """From an empty cache: three tokens, then one at a time."""
    program = to_onnx(step, [_FULL, _TOKENS, _TOKENS, past, past], opset=23, constraints=["S >= 0"])
    operators = [node.op_type for node in program.model.graph]
    assert "Attention" in operators
    transposed = [
        node for node in program.model.graph if node.op_type == "Transpose" and "S" in str(node.outputs[0].shape)
    ]
    assert not transposed
    rng = np.random.default_rng(0)
    empty = np.zeros([{"B": 2, "S": 0}[d] if isinstance(d, str) else d for d in past], np.float32)
    cache = [empty, empty]
    for length in (3, 1, 1):
        q, k, v = (rng.normal(size=(2, length, heads, 6)).astype(np.float32) for heads in (4, 2, 2))
        expected = step(q, k, v, *cache)
        results = program(q, k, v, *cache)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=2e-5, atol=2e-6)
        cache = [np.asarray(x) for x in results[1:]]


def in_a_buffer(q: Any, k: Any, v: Any, keys: Any, values: Any, position: Any) -> Cached:
    keys = jax.lax.dynamic_update_slice(keys, k, (0, position, 0, 0))
    values = jax.lax.dynamic_update_slice(values, v, (0, position, 0, 0))
    seen = jnp.arange(keys.shape[1]) <= position + jnp.arange(q.shape[1])[:, None]
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, keys) / np.sqrt(6.0)
    weights = jax.nn.softmax(jnp.where(seen, logits, -1e9), -1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, values), keys, values


@pytest.mark.parametrize("heads_are_first", [False, True])
@pytest.mark.parametrize(("opset", "scatter"), [(23, "ScatterElements"), (24, "TensorScatter")])
def test_decoding_with_a_buffer(opset: int, scatter: str, heads_are_first: bool) -> None:
    def step(q: Any, k: Any, v: Any, keys: Any, values: Any, position: Any) -> Cached:
        if not heads_are_first:
            return in_a_buffer(q, k, v, keys, values, position)
        keys = jax.lax.dynamic_update_slice(keys, _heads(k), (0, 0, position, 0))
        values = jax.lax.dynamic_update_slice(values, _heads(v), (0, 0, position, 0))
        seen = (jnp.arange(keys.shape[2]) <= position)[None, None, None]
        return jax.nn.dot_product_attention(q, _heads(keys), _heads(values), mask=seen), keys, values

    token = ("B", 1, 2, 6)
    shape = (2, 2, 9, 6) if heads_are_first else (2, 9, 2, 6)
    buffer = ("B", *shape[1:])
    program = to_onnx(step, [token, token, token, buffer, buffer, ((), np.int32)], opset=opset)
    operators = [node.op_type for node in program.model.graph]
    assert operators.count(scatter) == 2
    assert "Attention" in operators
    assert "ScatterND" not in operators
    transposed = [
        node for node in program.model.graph if node.op_type == "Transpose" and 9 in node.outputs[0].shape.dims
    ]
    assert not transposed
    rng = np.random.default_rng(0)
    cache = [np.zeros(shape, np.float32)] * 2
    for position in range(9):
        q, k, v = (rng.normal(size=(2, 1, 2, 6)).astype(np.float32) for _ in range(3))
        expected = step(q, k, v, cache[0], cache[1], position)
        results = program(q, k, v, *cache, np.int32(position))
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=2e-5, atol=2e-6)
        cache = [np.asarray(x) for x in results[1:]]


def test_a_long_buffer_is_read_as_far_as_it_is_filled() -> None:
    new, buffer = ("B", "T", 2, 6), ("B", 1024, 2, 6)
    program = to_onnx(in_a_buffer, [new, new, new, buffer, buffer, ((), np.int32)], constraints=["T <= 1024"])
    operators = [node.op_type for node in program.model.graph]
    assert operators.count("If") == 1
    assert "Transpose" not in operators
    rng = np.random.default_rng(0)
    keys, values = (rng.normal(size=(2, 1024, 2, 6)).astype(np.float32) for _ in range(2))
    for position, length in ((0, 1), (0, 7), (505, 6), (505, 7), (505, 8), (1022, 2)):
        q, k, v = (rng.normal(size=(2, length, 2, 6)).astype(np.float32) for _ in range(3))
        arguments = (q, k, v, keys, values, np.int32(position))
        for result, value in zip(program(*arguments), in_a_buffer(*arguments), strict=True):
            np.testing.assert_allclose(result, value, rtol=2e-5, atol=2e-6)
