"""ResNet-50 and GPT-2, at their real sizes, for the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx

__all__ = ["MODELS"]

_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, number of blocks, and stride of the first block, for each stage of a ResNet-50."""


class ConvNorm(nnx.Module):
    def __init__(self, inputs: int, outputs: int, window: int, stride: int, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(inputs, outputs, (window, window), strides=stride, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(outputs, use_running_average=True, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.norm(self.conv(x))


class Bottleneck(nnx.Module):
    def __init__(self, inputs: int, width: int, stride: int, rngs: nnx.Rngs) -> None:
        self.reduce = ConvNorm(inputs, width, 1, 1, rngs)
        self.conv = ConvNorm(width, width, 3, stride, rngs)
        self.expand = ConvNorm(width, 4 * width, 1, 1, rngs)
        self.skip = None if inputs == 4 * width else ConvNorm(inputs, 4 * width, 1, stride, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.expand(nnx.relu(self.conv(nnx.relu(self.reduce(x)))))
        return nnx.relu(y + (x if self.skip is None else self.skip(x)))


class ResNet50(nnx.Module):
    """[B, 224, 224, 3] → [B, 1000]."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.stem = ConvNorm(3, 64, 7, 2, rngs)
        self.blocks: nnx.List[Bottleneck] = nnx.List([])
        width = 64
        for inner, count, stride in _STAGES:
            for index in range(count):
                self.blocks.append(Bottleneck(width, inner, stride if index == 0 else 1, rngs))
                width = 4 * inner
        self.head = nnx.Linear(width, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.stem(x)), (3, 3), (2, 2), padding="SAME")
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


class LinenResNet50(linen.Module):
    """[B, 224, 224, 3] → [B, 1000], in Flax Linen."""

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        def conv_norm(x: jax.Array, width: int, window: int, stride: int = 1) -> jax.Array:
            y = linen.Conv(width, (window, window), (stride, stride), use_bias=False)(x)
            return linen.BatchNorm(use_running_average=True)(y)

        x = linen.max_pool(linen.relu(conv_norm(x, 64, 7, 2)), (3, 3), (2, 2), "SAME")
        for width, count, first in _STAGES:
            for stride in (first, *[1] * (count - 1)):
                y = linen.relu(conv_norm(x, width, 1))
                y = linen.relu(conv_norm(y, width, 3, stride))
                y = conv_norm(y, 4 * width, 1)
                x = linen.relu(y + (x if x.shape == y.shape else conv_norm(x, 4 * width, 1, stride)))
        return linen.Dense(1000)(x.mean((1, 2)))


class Block(nnx.Module):
    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.norm1, self.norm2 = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Gpt2(nnx.Module):
    """[B, T] of tokens → [B, T, 50257], the smallest GPT-2."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens, self.positions = nnx.Embed(50257, 768, rngs=rngs), nnx.Embed(1024, 768, rngs=rngs)
        self.blocks = nnx.List([Block(768, 12, rngs) for _ in range(12)])
        self.norm = nnx.LayerNorm(768, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        mask = nnx.make_causal_mask(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.tokens.attend(self.norm(x))


def formulas(count: int, width: int = 768, heads: int = 12) -> Callable[[jax.Array], jax.Array]:
    """[B, T, width] → the same: blocks of a GPT-2 as formulas, with no layer and no function of `jax.nn`."""
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    blocks = [{name: jnp.full(shape, 0.01 * i) for name, shape in shapes.items()} for i in range(count)]

    def norm(x: jax.Array) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)

    def attention(x: jax.Array, weights: dict[str, jax.Array]) -> jax.Array:
        batch, length, _ = x.shape
        parts = jnp.split(norm(x) @ weights["qkv"], 3, axis=-1)
        q, k, v = (a.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for a in parts)
        logits = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
        logits = jnp.where(jnp.tril(jnp.ones((length, length), bool)), logits, -1e30)
        likely = jnp.exp(logits - logits.max(-1, keepdims=True))
        mixed = likely / likely.sum(-1, keepdims=True) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ weights["out"]

    def model(x: jax.Array) -> jax.Array:
        for weights in blocks:
            x = x + attention(x, weights)
            h = norm(x) @ weights["up"]
            x = x + 0.5 * h * (1 + jnp.tanh(0.7978845608 * (h + 0.044715 * h**3))) @ weights["down"]
        return x

    return model


def _linen_resnet() -> Callable[[jax.Array], Any]:
    model = LinenResNet50()
    return model.bind(model.init(jax.random.key(0), jnp.zeros(_IMAGE.shape)))


_IMAGE = jax.ShapeDtypeStruct((1, 224, 224, 3), "float32")
_STATES = jax.ShapeDtypeStruct((1, 64, 768), "float32")
_TOKENS = jax.ShapeDtypeStruct((1, 64), "int32")

MODELS: Mapping[str, tuple[Callable[[], Callable[[jax.Array], Any]], jax.ShapeDtypeStruct]] = {
    "ResNet-50": (lambda: ResNet50(nnx.Rngs(0)), _IMAGE),
    "ResNet-50 in Linen": (_linen_resnet, _IMAGE),
    "GPT-2": (lambda: Gpt2(nnx.Rngs(0)), _TOKENS),
    "GPT-2 in formulas": (lambda: formulas(12), _STATES),
}
"""By name, the maker of each model and its input."""
