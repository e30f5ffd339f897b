"""Transformers with a key-value cache, as people write them in Flax NNX: a decoder layer and a control transformer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

__all__ = ["ControlTransformer", "DecoderLayer", "causal_mask"]


def causal_mask(new: int, total: int) -> jax.Array:
    """[new, total]: what each of the last `new` positions may see of all `total`."""
    return jnp.tril(jnp.ones((new, total), bool), total - new)


class DecoderLayer(nnx.Module):
    """x [B, T, D], past_k and past_v [B, H, S, D/H], mask [T, S + T] → y [B, T, D] and the longer keys and values."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.heads = heads
        self.norm1, self.norm2 = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.query, self.key, self.value, self.out = (nnx.Linear(width, width, rngs=rngs) for _ in range(4))
        self.up, self.down = nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)

    def split(self, x: jax.Array) -> jax.Array:
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(0, 2, 1, 3)

    def __call__(
        self, x: jax.Array, past_k: jax.Array, past_v: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        h = self.norm1(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        k, v = jnp.concatenate([past_k, k], axis=2), jnp.concatenate([past_v, v], axis=2)
        logits = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
        weights = jax.nn.softmax(jnp.where(mask, logits, -jnp.inf), axis=-1)
        x = x + self.out((weights @ v).transpose(0, 2, 1, 3).reshape(x.shape))
        return x + self.down(nnx.gelu(self.up(self.norm2(x)))), k, v


class ControlTransformer(nnx.Module):
    """Timesteps of camera images, speed and waypoints → a prediction from the last token, and the caches.

    The batch holds `camera` [1, T, 8, 8, 3], `speed` [1, T, 1] and `waypoints` [1, T, 4, 2]; each timestep makes nine
    tokens: four patches of the image, one of the speed, four waypoints. `cached_projected_embeddings` is [1, S, D],
    `cached_kv` [L, 2, 1, S, D], and the mask [9·T, S + 9·T].
    """

    def __init__(
        self, *, width: int = 24, depth: int = 2, heads: int = 3, context: int = 64, patch: int = 4, rngs: nnx.Rngs
    ) -> None:
        self.width, self.heads = width, heads
        self.patches = nnx.Conv(3, width, (patch, patch), strides=patch, padding="VALID", rngs=rngs)
        self.speed, self.waypoints = nnx.Linear(1, width, rngs=rngs), nnx.Linear(2, width, rngs=rngs)
        self.positions = nnx.Embed(context, width, rngs=rngs)
        self.layers = nnx.List([DecoderLayer(width, heads, rngs=rngs) for _ in range(depth)])
        self.head = nnx.Linear(width, 1, rngs=rngs)

    def encode(self, batch: dict[str, Any]) -> jax.Array:
        """[1, 9·T, D]"""
        camera = batch["camera"]
        one, steps = camera.shape[:2]
        image = self.patches(camera.reshape(one * steps, *camera.shape[2:]))
        image = image.reshape(one, steps, image.shape[1] * image.shape[2], self.width)
        tokens = [image, self.speed(batch["speed"])[:, :, None], self.waypoints(batch["waypoints"])]
        return jnp.concatenate(tokens, axis=2).reshape(one, -1, self.width)

    def __call__(
        self, batch: dict[str, Any], cached_projected_embeddings: jax.Array, cached_kv: jax.Array, mask: jax.Array
    ) -> dict[str, jax.Array]:
        new = self.encode(batch)
        projected = jnp.concatenate([cached_projected_embeddings, new], axis=1)
        start = cached_projected_embeddings.shape[1]
        x = new + self.positions(start + jnp.arange(new.shape[1]))
        pairs = []
        for layer, past in zip(self.layers, cached_kv, strict=True):
            x, k, v = layer(x, layer.split(past[0]), layer.split(past[1]), mask)
            pairs.append(jnp.stack([self.merge(k), self.merge(v)]))
        return {"predictions": self.head(x[:, -1]), "projected_embeddings": projected, "kv_cache": jnp.stack(pairs)}

    def merge(self, x: jax.Array) -> jax.Array:
        """[1, H, S, D/H] → [1, S, D]"""
        return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], self.width)
