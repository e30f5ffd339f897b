"""Models as people write them, for the integration tests: plain Flax NNX, nothing chosen for the converter."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

__all__ = ["BiLstm", "Gpt", "HandWrittenGpt", "ResNet", "UNet", "ViT", "as_trained"]


class Mlp(nnx.Module):
    def __init__(self, width: int, hidden: int, **options: Any) -> None:
        self.up = nnx.Linear(width, hidden, **options)
        self.down = nnx.Linear(hidden, width, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down(nnx.gelu(self.up(x), approximate=False))


class Block(nnx.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, dropout: float = 0.0, **options: Any) -> None:
        rngs = options["rngs"]
        self.causal = causal
        self.norm1 = nnx.LayerNorm(width, **options)
        self.attn = nnx.MultiHeadAttention(heads, width, decode=False, **options)
        self.norm2 = nnx.LayerNorm(width, **options)
        self.mlp = Mlp(width, 4 * width, **options)
        self.dropout = nnx.Dropout(dropout, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.dropout(self.attn(self.norm1(x), is_causal=self.causal))
        return x + self.dropout(self.mlp(self.norm2(x)))


class ViT(nnx.Module):
    """[B, size, size, 3] → [B, classes], with a class token."""

    def __init__(
        self, *, size: int = 32, patch: int = 8, width: int = 192, depth: int = 12, heads: int = 3, classes: int = 10,
        **options: Any,
    ) -> None:  # fmt: skip
        self.patches = nnx.Conv(3, width, (patch, patch), strides=patch, padding="VALID", **options)
        count = (size // patch) ** 2 + 1
        key, dtype = options["rngs"].params(), options.get("param_dtype", jnp.float32)
        self.cls = nnx.Param(jnp.zeros((1, 1, width), dtype) + 0.5)
        self.positions = nnx.Param(0.02 * jax.random.normal(key, (1, count, width), dtype))
        self.blocks = nnx.List([Block(width, heads, dropout=0.1, **options) for _ in range(depth)])
        self.norm = nnx.LayerNorm(width, **options)
        self.head = nnx.Linear(width, classes, **options)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = self.patches(images)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        token = jnp.broadcast_to(self.cls[...], (x.shape[0], 1, x.shape[-1]))
        x = jnp.concatenate([token, x], axis=1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Gpt(nnx.Module):
    """[B, T] of tokens → [B, T, vocabulary], causal, the unembedding tied to the embedding."""

    def __init__(
        self, *, vocabulary: int = 101, context: int = 64, width: int = 96, depth: int = 4, heads: int = 4,
        **options: Any,
    ) -> None:  # fmt: skip
        self.tokens = nnx.Embed(vocabulary, width, **options)
        self.positions = nnx.Embed(context, width, **options)
        self.blocks = nnx.List([Block(width, heads, causal=True, **options) for _ in range(depth)])
        self.norm = nnx.LayerNorm(width, **options)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))


class BiLstm(nnx.Module):
    """[B, T, features] → [B, classes]: an LSTM in both directions, the mean over time, a head."""

    def __init__(self, *, features: int = 12, hidden: int = 16, classes: int = 5, **options: Any) -> None:
        self.forward = nnx.RNN(nnx.OptimizedLSTMCell(features, hidden, **options))
        self.backward = nnx.RNN(nnx.OptimizedLSTMCell(features, hidden, **options), reverse=True, keep_order=True)
        self.head = nnx.Linear(2 * hidden, classes, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        both = jnp.concatenate([self.forward(x), self.backward(x)], axis=-1)
        return self.head(both.mean(axis=1))


class ConvNorm(nnx.Module):
    def __init__(self, inputs: int, outputs: int, window: int, stride: int = 1, **options: Any) -> None:
        self.conv = nnx.Conv(inputs, outputs, (window, window), strides=stride, use_bias=False, **options)
        self.norm = nnx.BatchNorm(outputs, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.norm(self.conv(x))


class ResBlock(nnx.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, **options: Any) -> None:
        self.first = ConvNorm(inputs, outputs, 3, stride, **options)
        self.second = ConvNorm(outputs, outputs, 3, **options)
        self.skip = ConvNorm(inputs, outputs, 1, stride, **options) if stride > 1 or inputs != outputs else None

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.second(nnx.relu(self.first(x)))
        return nnx.relu(y + (x if self.skip is None else self.skip(x)))


class ResNet(nnx.Module):
    """[B, H, W, 3] → [B, classes]."""

    def __init__(self, *, widths: tuple[int, ...] = (16, 32, 64), classes: int = 10, **options: Any) -> None:
        self.stem = ConvNorm(3, widths[0], 7, 2, **options)
        sizes = list(zip((widths[0], *widths[:-1]), widths, strict=True))
        self.stages = nnx.List([ResBlock(i, o, 1 if n == 0 else 2, **options) for n, (i, o) in enumerate(sizes)])
        self.head = nnx.Linear(widths[-1], classes, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.stem(x))
        x = nnx.max_pool(x, (3, 3), (2, 2), padding="SAME")
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean(axis=(1, 2)))


class Double(nnx.Module):
    def __init__(self, inputs: int, outputs: int, **options: Any) -> None:
        self.conv1 = nnx.Conv(inputs, outputs, (3, 3), **options)
        self.norm1 = nnx.GroupNorm(outputs, 4, **options)
        self.conv2 = nnx.Conv(outputs, outputs, (3, 3), **options)
        self.norm2 = nnx.GroupNorm(outputs, 4, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.silu(self.norm2(self.conv2(nnx.silu(self.norm1(self.conv1(x))))))


class UNet(nnx.Module):
    """[B, H, W, 3] → [B, H, W, 2], for H and W divisible by 4."""

    def __init__(self, *, width: int = 8, **options: Any) -> None:
        self.down = nnx.List([Double(3, width, **options), Double(width, 2 * width, **options)])
        self.middle = Double(2 * width, 4 * width, **options)
        self.ups = nnx.List([
            nnx.ConvTranspose(4 * width, 2 * width, (2, 2), strides=(2, 2), **options),
            nnx.ConvTranspose(2 * width, width, (2, 2), strides=(2, 2), **options),
        ])  # fmt: skip
        self.merge = nnx.List([Double(4 * width, 2 * width, **options), Double(2 * width, width, **options)])
        self.out = nnx.Conv(width, 2, (1, 1), **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = nnx.avg_pool(x, (2, 2), (2, 2))
        x = self.middle(x)
        for up, merge in zip(self.ups, self.merge, strict=True):
            x = merge(jnp.concatenate([up(x), skips.pop()], axis=-1))
        return self.out(x)


class HandWrittenGpt(nnx.Module):
    """A decoder block as formulas: no layer, no function of `jax.nn`, so that no composite reaches it."""

    def __init__(self, *, width: int = 32, heads: int = 4, rngs: nnx.Rngs, param_dtype: Any = jnp.float32) -> None:
        self.heads = heads

        def weight(*shape: int) -> nnx.Param[jax.Array]:
            return nnx.Param(jax.random.normal(rngs.params(), shape, param_dtype) * shape[0] ** -0.5)

        self.qkv, self.out = weight(width, 3 * width), weight(width, width)
        self.up, self.down = weight(width, 4 * width), weight(4 * width, width)
        self.scale, self.shift = nnx.Param(jnp.ones(width, param_dtype)), nnx.Param(jnp.zeros(width, param_dtype))

    def norm(self, x: jax.Array) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * self.scale[...] + self.shift[...]

    def __call__(self, x: jax.Array) -> jax.Array:
        batch, length, width = x.shape
        q, k, v = jnp.split(self.norm(x) @ self.qkv[...], 3, axis=-1)
        q, k, v = (a.reshape(batch, length, self.heads, -1).transpose(0, 2, 1, 3) for a in (q, k, v))
        logits = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
        logits = jnp.where(jnp.tril(jnp.ones((length, length), bool)), logits, -1e30)
        weights = jnp.exp(logits - logits.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        x = x + (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ self.out[...]
        h = self.norm(x) @ self.up[...]
        h = 0.5 * h * (1 + jnp.tanh(0.7978845608 * (h + 0.044715 * h**3)))
        return x + h @ self.down[...]


def as_trained(model: nnx.Module, seed: int) -> nnx.Module:
    """The model at inference, with biases, scales and statistics that are not those of initialisation."""
    noise = np.random.default_rng(seed)
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        if isinstance(variable, nnx.BatchStat) or path[-1] in ("bias", "scale"):
            old = variable[...]
            variable.set_value(jnp.asarray(noise.uniform(0.5, 1.5, old.shape), old.dtype))
    model.eval()
    return model
