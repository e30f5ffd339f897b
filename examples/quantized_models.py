"""Small models of six kinds with what to feed them, for the tests and the table of quantisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from examples.models import BiLstm, Gpt, Mlp, ViT, as_trained

__all__ = ["EXAMPLES", "OUTLIERS", "Example"]


@dataclasses.dataclass(frozen=True)
class Example:
    """A model to quantise.

    Attributes:
      make: the model itself.
      inputs: the specification of its inputs.
      feed: random arguments for a seed.
    """

    make: Callable[[], Callable[..., Any]]
    inputs: Sequence[Any]
    feed: Callable[[np.random.Generator], tuple[np.ndarray, ...]]

    def arguments(self, count: int, seed: int = 0) -> list[tuple[np.ndarray, ...]]:
        """Arguments of `count` calls."""
        rng = np.random.default_rng(seed)
        return [self.feed(rng) for _ in range(count)]


class Cnn(nnx.Module):
    """[B, 16, 16, 3] → [B, 10]: two convolutions with norms, pooled, a head."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.first, self.second = nnx.Conv(3, 16, (3, 3), rngs=rngs), nnx.Conv(16, 32, (3, 3), strides=2, rngs=rngs)
        self.norm = nnx.BatchNorm(16, use_running_average=True, rngs=rngs)
        self.head = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.norm(self.first(x))), (2, 2), strides=(2, 2))
        return self.head(nnx.relu(self.second(x)).mean(axis=(1, 2)))


class QwenLike(nnx.Module):
    """[B, T] of tokens → [B, T, vocabulary]: RMS norms, rotary embeddings, grouped queries, gated layers, an untied head."""

    def __init__(self, *, vocabulary: int = 97, width: int = 64, depth: int = 2, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(vocabulary, width, rngs=rngs)
        self.blocks = nnx.List([GroupedBlock(width, rngs=rngs) for _ in range(depth)])
        self.norm = nnx.RMSNorm(width, rngs=rngs)
        self.head = nnx.Linear(width, vocabulary, use_bias=False, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class GroupedBlock(nnx.Module):
    HEADS, GROUPS, SIZE = 4, 2, 16

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        def linear(inputs: int, outputs: int) -> nnx.Linear:
            return nnx.Linear(inputs, outputs, use_bias=False, rngs=rngs)

        self.norm1, self.norm2 = nnx.RMSNorm(width, rngs=rngs), nnx.RMSNorm(width, rngs=rngs)
        self.query, self.out = linear(width, self.HEADS * self.SIZE), linear(self.HEADS * self.SIZE, width)
        self.key, self.value = (linear(width, self.GROUPS * self.SIZE) for _ in range(2))
        self.gate, self.up, self.down = linear(width, 3 * width), linear(width, 3 * width), linear(3 * width, width)

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.norm1(x)
        split = (*x.shape[:2], -1, self.SIZE)
        q, k, v = (layer(h).reshape(split) for layer in (self.query, self.key, self.value))
        attended = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + self.out(attended.reshape(*x.shape[:2], self.HEADS * self.SIZE))
        h = self.norm2(x)
        return x + self.down(nnx.silu(self.gate(h)) * self.up(h))


class T5Like(nnx.Module):
    """[B, T] of tokens → [B, T, width]: RMS norms, unscaled attention with a relative bias, gated gelu."""

    def __init__(self, *, vocabulary: int = 97, width: int = 128, depth: int = 3, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(vocabulary, width, rngs=rngs)
        self.blocks = nnx.List([T5Block(width, rngs=rngs) for _ in range(depth)])
        self.norm = nnx.RMSNorm(width, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class T5Block(nnx.Module):
    HEADS, SIZE, BUCKETS = 4, 32, 16

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        def linear(inputs: int, outputs: int) -> nnx.Linear:
            return nnx.Linear(inputs, outputs, use_bias=False, rngs=rngs)

        inner = self.HEADS * self.SIZE
        self.norm1, self.norm2 = nnx.RMSNorm(width, rngs=rngs), nnx.RMSNorm(width, rngs=rngs)
        self.query, self.key, self.value = (linear(width, inner) for _ in range(3))
        self.out, self.bias = linear(inner, width), nnx.Embed(2 * self.BUCKETS, self.HEADS, rngs=rngs)
        self.gate, self.up, self.down = linear(width, 4 * width), linear(width, 4 * width), linear(4 * width, width)

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.norm1(x)
        q, k, v = (
            layer(h).reshape(*x.shape[:2], self.HEADS, self.SIZE) for layer in (self.query, self.key, self.value)
        )
        place = jnp.arange(x.shape[1])
        distance = jnp.clip(place[None] - place[:, None], -self.BUCKETS, self.BUCKETS - 1) + self.BUCKETS
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) + self.bias(distance).transpose(2, 0, 1)
        attended = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits, axis=-1), v)
        x = x + self.out(attended.reshape(*x.shape[:2], -1))
        h = self.norm2(x)
        return x + self.down(nnx.gelu(self.gate(h)) * self.up(h))


def _with_outliers(model: nnx.Module) -> T5Like:
    """The model with what trained ones of this kind have: a few channels of some layers that are much larger than the rest."""
    assert isinstance(model, T5Like)
    rng = np.random.default_rng(4)
    for number, block in enumerate(model.blocks):
        for layer, count, factor in ((block.gate, 3, 8.0), (block.up, 3, 12.0), (block.out, 2, 6.0)):
            scale = np.ones(layer.kernel.shape[1], np.float32)
            scale[rng.choice(scale.size, count, replace=False)] = factor
            layer.kernel.set_value(layer.kernel[...] * scale)
        if number == 0:
            block.query.kernel.set_value(block.query.kernel[...] * 2)  # sharp attention
            block.down.kernel.set_value(block.down.kernel[...] * 4)
    return model


def rotated(x: jax.Array) -> jax.Array:
    """Rotary embedding of [B, T, heads, size]."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _trained(model: Callable[..., nnx.Module], **options: Any) -> Callable[[], Callable[..., Any]]:
    return lambda: as_trained(model(rngs=nnx.Rngs(0), **options), seed=1)


def _normal(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.normal(size=shape).astype(np.float32),)


def _tokens(count: int, *shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.integers(0, count, shape).astype(np.int32),)


EXAMPLES: Mapping[str, Example] = {
    "MLP": Example(_trained(Mlp, width=64, hidden=128), [("B", 64)], _normal(4, 64)),
    "CNN": Example(_trained(Cnn), [("B", 16, 16, 3)], _normal(2, 16, 16, 3)),
    "ViT": Example(_trained(ViT, depth=2, width=96), [("B", 32, 32, 3)], _normal(2, 32, 32, 3)),
    "GPT, tied head": Example(_trained(Gpt, depth=2), [(("B", "T"), np.int32)], _tokens(101, 2, 12)),
    "Qwen-like": Example(_trained(QwenLike), [(("B", "T"), np.int32)], _tokens(97, 2, 12)),
    "LSTM": Example(_trained(BiLstm, features=32, hidden=32), [("B", "T", 32)], _normal(2, 7, 32)),
}

#: A model that few bits everywhere disturb much: outliers in its activations, and attention that is not scaled.
OUTLIERS = Example(
    lambda: _with_outliers(as_trained(T5Like(rngs=nnx.Rngs(0)), seed=1)), [(("B", "T"), np.int32)], _tokens(97, 2, 12)
)
