"""Rotary embeddings written in JAX in all spellings: what becomes of them, and that the values stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx


def _angles(positions: Any, features: int) -> jax.Array:
    frequencies = 1.0 / 10000 ** (jnp.arange(0, features, 2) / features)
    return positions[..., None].astype(jnp.float32) * frequencies


def halves(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions, x.shape[-1])[:, :, None]
    c, s = jnp.cos(angles), jnp.sin(angles)
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


def rotated_half(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions, x.shape[-1])
    doubled, half = jnp.concatenate([angles, angles], -1)[:, :, None], x.shape[-1] // 2
    return x * jnp.cos(doubled) + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * jnp.sin(doubled)


def even_and_odd(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions, x.shape[-1])[:, :, None]
    c, s, x1, x2 = jnp.cos(angles), jnp.sin(angles), x[..., ::2], x[..., 1::2]
    return jnp.stack([x1 * c - x2 * s, x1 * s + x2 * c], -1).reshape(x.shape)


def complex_numbers(x: Any, positions: Any) -> jax.Array:
    angles, pairs = _angles(positions, x.shape[-1])[:, :, None], x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
    z = jax.lax.complex(pairs[..., 0], pairs[..., 1]) * jax.lax.complex(jnp.cos(angles), jnp.sin(angles))
    return jnp.stack([z.real, z.imag], -1).reshape(x.shape)


def rows_of_a_table(x: Any, positions: Any) -> jax.Array:
    angles = _angles(np.arange(64), x.shape[-1])
    doubled, half = jnp.concatenate([angles, angles], -1), x.shape[-1] // 2
    c, s = jnp.cos(doubled)[positions][:, :, None], jnp.sin(doubled)[positions][:, :, None]
    return x * c + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * s


def all_sequences_alike(x: Any, positions: Any) -> jax.Array:
    angles = _angles(positions[0], x.shape[-1])[:, None]
    x1, x2 = jnp.split(x, 2, -1)
    c, s = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


@pytest.mark.parametrize(("tokens", "heads"), [("T", 3), (1, 3), ("T", 1)])
@pytest.mark.parametrize(
    "rotate", [halves, rotated_half, even_and_odd, complex_numbers, rows_of_a_table, all_sequences_alike]
)
def test_rotary_embeddings_of_jax(rotate: Callable[[Any, Any], jax.Array], tokens: int | str, heads: int) -> None:
    program = to_onnx(rotate, [("B", tokens, heads, 8), (("B", tokens), np.int32)], opset=23)
    operators = [node.op_type for node in program.model.graph]
    assert operators.count("RotaryEmbedding") == 1
    assert not {"Neg", "Split"} & set(operators)
    for batch, length in ((2, 5), (1, 1), (3, 2)):
        length = length if tokens == "T" else 1
        rng = np.random.default_rng(length)
        x = rng.normal(size=(batch, length, heads, 8)).astype(np.float32)
        positions = rng.integers(0, 64, (batch, length)).astype(np.int32)
        np.testing.assert_allclose(program(x, positions), rotate(x, positions), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rotate", [halves, rotated_half])
def test_rotary_embeddings_of_jax_with_heads_first(rotate: Callable[[Any, Any], jax.Array]) -> None:
    def rotate_heads(x: Any, positions: Any) -> jax.Array:
        return jax.vmap(lambda head: rotate(head[:, :, None], positions)[:, :, 0], 1, 1)(x)

    program = to_onnx(rotate_heads, [("B", 3, "T", 8), (("B", "T"), np.int32)], opset=23)
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 8)).astype(np.float32)
    positions = np.arange(10, dtype=np.int32).reshape(2, 5)
    np.testing.assert_allclose(program(x, positions), rotate_heads(x, positions), rtol=2e-5, atol=2e-5)
