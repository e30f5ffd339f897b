"""Models as people write them in Flax Linen and plain JAX, for the integration tests."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = [
    "FourierOperator",
    "Llama",
    "MixtureOfExperts",
    "ResNet",
    "Seq2Seq",
    "StateSpace",
    "Translator",
    "UNet",
    "Vae",
    "ViT",
]

Array = jax.Array


class Bottleneck(nn.Module):
    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x: Array) -> Array:
        def conv_norm(x: Array, width: int, window: int, stride: int = 1) -> Array:
            y = nn.Conv(width, (window, window), (stride, stride), use_bias=False)(x)
            return nn.BatchNorm(use_running_average=True)(y)

        y = nn.relu(conv_norm(x, self.width, 1))
        y = nn.relu(conv_norm(y, self.width, 3, self.stride))
        y = conv_norm(y, 4 * self.width, 1)
        return nn.relu(y + (x if x.shape == y.shape else conv_norm(x, 4 * self.width, 1, self.stride)))


class ResNet(nn.Module):
    """[B, H, W, 3] → [B, 10]."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(8, (7, 7), (2, 2))(x)))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for width, stride in ((4, 1), (8, 2)):
            x = Bottleneck(width)(Bottleneck(width, stride)(x))
        return nn.Dense(10)(x.mean((1, 2)))


class Block(nn.Module):
    heads: int = 2

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))))


class ViT(nn.Module):
    """[B, 32, 32, 3] → [B, 10], with a class token."""

    @nn.compact
    def __call__(self, images: Array) -> Array:
        x = nn.Conv(32, (8, 8), (8, 8))(images)
        batch, height, width, features = x.shape
        token = self.param("token", nn.initializers.normal(), (1, 1, features))
        positions = self.param("positions", nn.initializers.normal(), (1, height * width + 1, features))
        x = jnp.concatenate([jnp.tile(token, (batch, 1, 1)), x.reshape(batch, -1, features)], 1) + positions
        for _ in range(2):
            x = Block()(x)
        return nn.Dense(10)(nn.LayerNorm()(x)[:, 0])


class UNet(nn.Module):
    """One denoising step: images [B, 16, 16, 3] and times [B] → noise [B, 16, 16, 3]."""

    @nn.compact
    def __call__(self, x: Array, t: Array) -> Array:
        angles = t[:, None] * jnp.exp(-jnp.log(1e4) * jnp.arange(8) / 8)
        time = nn.Dense(16)(nn.silu(nn.Dense(16)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))))

        def residual(x: Array, width: int) -> Array:
            h = nn.Conv(width, (3, 3))(nn.silu(nn.GroupNorm(4)(x)))
            h = h + nn.Dense(width)(nn.silu(time))[:, None, None]
            h = nn.Conv(width, (3, 3))(nn.silu(nn.GroupNorm(4)(h)))
            return h + (x if x.shape[-1] == width else nn.Conv(width, (1, 1))(x))

        skip = residual(nn.Conv(8, (3, 3))(x), 8)
        y = residual(nn.Conv(16, (3, 3), (2, 2))(skip), 16)
        batch, height, width, features = y.shape
        y = y + nn.MultiHeadDotProductAttention(2)(y.reshape(batch, -1, features)).reshape(y.shape)
        y = nn.Conv(8, (3, 3))(jax.image.resize(y, (batch, 2 * height, 2 * width, features), "nearest"))
        return nn.Conv(3, (3, 3))(residual(jnp.concatenate([y, skip], -1), 8))


class Vae(nn.Module):
    """Images [B, 16, 16, 3] and a key → their reconstruction, the means and the log variances."""

    @nn.compact
    def __call__(self, x: Array, key: Array) -> tuple[Array, Array, Array]:
        h = nn.relu(nn.Conv(8, (3, 3), (2, 2))(x)).reshape(x.shape[0], -1)
        mean, log_variance = nn.Dense(6)(h), nn.Dense(6)(h)
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
        h = nn.relu(nn.Dense(8 * 8 * 8)(z)).reshape(-1, 8, 8, 8)
        return nn.sigmoid(nn.ConvTranspose(3, (3, 3), (2, 2))(h)), mean, log_variance


def rotated(x: Array, positions: Array) -> Array:
    """Rotary embedding of x [B, T, heads, features] at positions [T]."""
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * 1e4 ** (-jnp.arange(half) / half)
    left, right = x[..., :half], x[..., half:]
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


class Llama(nn.Module):
    """A decoder layer with grouped queries: tokens [B, T], caches [B, S, 2, 8], their length → logits, caches."""

    @nn.compact
    def __call__(self, tokens: Array, keys: Array, values: Array, length: Array) -> tuple[Array, Array, Array]:
        def dense(features: Any) -> nn.DenseGeneral:
            return nn.DenseGeneral(features, use_bias=False)

        x = nn.Embed(50, 32)(tokens)
        positions = length + jnp.arange(tokens.shape[1])
        h = nn.RMSNorm()(x)
        query, key, value = rotated(dense((4, 8))(h), positions), rotated(dense((2, 8))(h), positions), dense((2, 8))(h)
        keys = lax.dynamic_update_slice(keys, key, (0, length, 0, 0))
        values = lax.dynamic_update_slice(values, value, (0, length, 0, 0))
        logits = jnp.einsum("bqhd,bkhd->bhqk", query, jnp.repeat(keys, 2, 2)) / np.sqrt(8)
        visible = jnp.arange(keys.shape[1]) <= positions[:, None]
        weights = nn.softmax(jnp.where(visible, logits, jnp.finfo(logits.dtype).min))
        attended = jnp.einsum("bhqk,bkhd->bqhd", weights, jnp.repeat(values, 2, 2))
        x = x + dense(32)(attended.reshape(x.shape))
        h = nn.RMSNorm()(x)
        x = x + dense(32)(nn.silu(dense(64)(h)) * dense(64)(h))
        return dense(50)(nn.RMSNorm()(x)), keys, values


class StateSpace(nn.Module):
    """A selective state space layer: [B, 16, 8] → [B, 16, 8], by an associative scan."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        u = nn.silu(nn.Conv(16, (4,), padding="CAUSAL", feature_group_count=16)(nn.Dense(16)(x)))
        step, into, out = nn.softplus(nn.Dense(16)(u)), nn.Dense(4)(u), nn.Dense(4)(u)
        decay = jnp.exp(step[..., None] * -jnp.exp(self.param("decay", nn.initializers.normal(), (16, 4))))
        driven = (step * u)[..., None] * into[:, :, None]

        def combine(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
            return left[0] * right[0], right[0] * left[1] + right[1]

        _, state = lax.associative_scan(combine, (decay, driven), axis=1)
        return nn.Dense(8)(jnp.einsum("btdn,btn->btd", state, out) * nn.silu(nn.Dense(16)(x)))


class MixtureOfExperts(nn.Module):
    """[N, 8] → [N, 8], each row by two of four experts."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        weights, chosen = lax.top_k(nn.softmax(nn.Dense(4)(x)), 2)
        weights = weights / weights.sum(-1, keepdims=True)
        combine = (jax.nn.one_hot(chosen, 4) * weights[..., None]).sum(1)
        up = self.param("up", nn.initializers.normal(), (4, 8, 16))
        down = self.param("down", nn.initializers.normal(), (4, 16, 8))
        hidden = nn.silu(jnp.einsum("nd,edh->neh", x, up))
        return jnp.einsum("neh,ehd,ne->nd", hidden, down, combine)


class Seq2Seq(nn.Module):
    """Source tokens [B, S] and target tokens [B, T] → logits [B, T, 20]."""

    @nn.compact
    def __call__(self, source: Array, target: Array) -> Array:
        embed = nn.Embed(20, 8)
        encoded = nn.Bidirectional(nn.RNN(nn.LSTMCell(6)), nn.RNN(nn.LSTMCell(6)))(embed(source))
        decoded = nn.RNN(nn.GRUCell(12))(embed(target))
        attended = nn.softmax(jnp.einsum("btd,bsd->bts", decoded, encoded)) @ encoded
        return nn.Dense(20)(jnp.concatenate([decoded, attended], -1))


class Translator(nn.Module):
    """Source tokens [B, S], 0 where a sentence has ended, and target tokens [B, T] → logits [B, T, 20]: cross attention."""

    @nn.compact
    def __call__(self, source: Array, target: Array) -> Array:
        embed = nn.Embed(20, 16)
        encoded, x = Block()(embed(source)), embed(target)
        causal, shown = nn.make_causal_mask(target), nn.make_attention_mask(jnp.ones_like(target), source > 0)
        x = x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=causal)
        x = x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), encoded, mask=shown)
        return embed.attend(nn.LayerNorm()(x + nn.Dense(16)(nn.relu(nn.Dense(64)(nn.LayerNorm()(x))))))


class FourierOperator(nn.Module):
    """[B, 32, 2] → [B, 32, 1]: a spectral convolution of the five lowest modes."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        h = nn.Dense(8)(x)
        real, imaginary = (self.param(name, nn.initializers.normal(), (5, 8, 8)) for name in ("real", "imaginary"))
        modes = jnp.fft.rfft(h, axis=1)
        kept = jnp.einsum("bkc,kcd->bkd", modes[:, :5], real + 1j * imaginary)
        h = nn.gelu(jnp.fft.irfft(jnp.zeros_like(modes).at[:, :5].set(kept), n=x.shape[1], axis=1) + nn.Dense(8)(h))
        return nn.Dense(1)(h)
