"""Decoders whose caches of all layers are one array, with random weights, and their greedy continuations in JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import OnnxProgram, to_onnx

__all__ = ["STACKED", "StackedDecoder"]

LAYERS, WORDS, WIDTH, HEADS, KEY_HEADS, FEATURES = 3, 512, 64, 4, 2, 16

Weights = dict[str, jax.Array]
#: New keys or values [B, T, K, H] and the cache of a layer [B, S, K, H] → the new cache.
Extend = Callable[[jax.Array, jax.Array], jax.Array]


def drawn(*shape: int) -> jax.Array:
    rng = np.random.default_rng(shape)
    return jnp.asarray(rng.standard_normal(shape, dtype=np.float32) / np.float32(shape[-2] ** 0.5))


def weights() -> tuple[Weights, jax.Array]:
    """The matrices of all layers [L, …], and the table of words."""
    sizes = {"query": HEADS, "key": KEY_HEADS, "value": KEY_HEADS}
    layers = {name: drawn(LAYERS, WIDTH, heads * FEATURES) for name, heads in sizes.items()}
    ends = {
        "out": drawn(LAYERS, HEADS * FEATURES, WIDTH),
        "up": drawn(LAYERS, WIDTH, 96),
        "down": drawn(LAYERS, 96, WIDTH),
    }
    return {**layers, **ends}, drawn(WORDS, WIDTH)


def turned(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary embedding of x [B, T, N, H] at positions [B, T]."""
    angles = positions[:, :, None, None] * 1e4 ** -jnp.linspace(0, 1, FEATURES // 2)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1)


def layer(
    x: jax.Array, weights: Weights, positions: jax.Array, mask: jax.Array, caches: tuple[jax.Array, jax.Array], extend: Extend
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:  # fmt: skip
    """A layer on x [B, T, D] with its caches of keys and values."""
    h = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    query, key, value = ((h @ weights[name]).reshape(*x.shape[:2], -1, FEATURES) for name in ("query", "key", "value"))
    kept = extend(caches[0], turned(key, positions)), extend(caches[1], value)
    seen = jax.nn.dot_product_attention(turned(query, positions), *kept, mask=mask)
    x = x + seen.reshape(*x.shape[:2], -1) @ weights["out"]
    return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"], kept


def by_layer(x: jax.Array, positions: jax.Array, mask: jax.Array, cache: jax.Array, extend: Extend) -> Any:
    """All layers one after another, with a cache [B, L, 2, S, K, H], as Keras has it."""
    found, new = weights()[0], []
    for i in range(LAYERS):
        mine = {name: array[i] for name, array in found.items()}
        x, kept = layer(x, mine, positions, mask, (cache[:, i, 0], cache[:, i, 1]), extend)
        new.append(jnp.stack(kept, axis=1))
    return x, jnp.stack(new, axis=1)


def by_scan(x: jax.Array, positions: jax.Array, mask: jax.Array, cache: jax.Array, extend: Extend) -> Any:
    """All layers in a `lax.scan`, with a cache [L, 2, B, S, K, H]."""

    def step(x: jax.Array, given: tuple[Weights, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, kept = layer(x, given[0], positions, mask, (given[1][0], given[1][1]), extend)
        return x, jnp.stack(kept)

    return jax.lax.scan(step, x, (weights()[0], cache))


@dataclasses.dataclass(frozen=True)
class StackedDecoder:
    """A decoder, called with tokens [B, T], positions [B, T], a mask [B, 1, T, S + T] or [B, 1, T, C], its cache and a place.

    Attributes:
      name: what it is, for the table.
      layers: computes all layers.
      axes: the axes of the cache before and after that of the batch.
      has_capacity: whether the cache is written at the place, rather than extended.
    """

    name: str
    layers: Callable[..., Any]
    axes: tuple[tuple[int, ...], tuple[int, ...]]
    has_capacity: bool

    def step(self, tokens: jax.Array, positions: jax.Array, mask: jax.Array, cache: jax.Array, place: jax.Array) -> Any:
        """The logits of all tokens, the new cache and the next place."""

        def extend(old: jax.Array, new: jax.Array) -> jax.Array:
            if self.has_capacity:
                return jax.lax.dynamic_update_slice(old, new, (0, place, 0, 0))
            return jnp.concatenate([old, new], 1)

        table = weights()[1]
        x, cache = self.layers(table[tokens] * 8, positions, mask, cache, extend)
        return {"logits": x @ table.T, "cache": cache, "place": place + tokens.shape[1]}

    def program(self) -> OnnxProgram:
        """The decoder as a program whose states are the cache and the place."""
        length, keys, constraint = ("C", "C", "C >= T") if self.has_capacity else ("S", "S + T", "S >= 0")
        before, behind = self.axes
        cache = (*before, "B", *behind, length, KEY_HEADS, FEATURES)
        ids = (("B", "T"), "int32")
        inputs = [ids, ids, (("B", 1, "T", keys), "bool"), cache, ((), "int32")]
        return to_onnx(self.step, inputs, constraints=[constraint], states={"cache": "cache", "place": "place"})

    def continued(self, prompt: Sequence[int], count: int) -> list[int]:
        """The greedy continuation of a prompt in JAX, each token computed from all that are before it."""
        size = len(prompt) + count
        before, behind = self.axes
        entries = size if self.has_capacity else 0
        cache = jnp.zeros((*before, 1, *behind, entries, KEY_HEADS, FEATURES))
        positions, causal = jnp.arange(size)[None], jnp.tril(jnp.ones((1, 1, size, size), bool))
        run, tokens = jax.jit(self.step), list(prompt)
        while len(tokens) < size:
            padded = jnp.array([tokens + [0] * (size - len(tokens))])
            logits = run(padded, positions, causal, cache, jnp.int32(0))["logits"]
            tokens.append(int(logits[0, len(tokens) - 1].argmax()))
        return tokens[len(prompt) :]


STACKED = [
    StackedDecoder(f"cache {shown} of all layers, {how}", layers, axes, has_capacity)
    for layers, axes, shown in (
        (by_layer, ((), (LAYERS, 2)), "[B, L, 2, S, K, H]"),
        (by_scan, ((LAYERS, 2), ()), "[L, 2, B, S, K, H]"),
    )
    for has_capacity, how in ((False, "grown"), (True, "written at a place"))
]
