"""An encoder and a decoder of the architecture of Whisper, in Flax NNX with random weights, and their greedy continuations in JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_runtime.bundles.bundle import Bundle

__all__ = ["BEGIN", "END", "FRAMES", "LENGTH", "MELS", "PAD", "Whisper", "bundle", "continued"]

WIDTH, HEADS, LAYERS, WORDS, MELS, FRAMES, LENGTH = 64, 4, 2, 128, 80, 3000, 96
PAD, BEGIN, END = 0, 1, WORDS - 1


class Attention(nnx.Module):
    """Attention of several heads to keys and values [B, S, N, H]; the projection of keys has no bias."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.query, self.value, self.out = (nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(3))
        self.key = nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=rngs)

    def pair(self, x: jax.Array) -> dict[str, jax.Array]:
        """The keys and values of x [B, S, D]."""
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        return {"key": self.key(x).reshape(shape), "value": self.value(x).reshape(shape)}

    def __call__(self, x: jax.Array, pair: dict[str, jax.Array], mask: jax.Array | None = None) -> jax.Array:
        query = self.query(x).reshape(*x.shape[:2], HEADS, WIDTH // HEADS)
        return self.out(jax.nn.dot_product_attention(query, pair["key"], pair["value"], mask=mask).reshape(x.shape))


class Layer(nnx.Module):
    """A layer of the encoder."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attention, self.attention_norm = Attention(rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.norm, self.up = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def rest(self, x: jax.Array) -> jax.Array:
        """The layer behind its attentions."""
        return x + self.down(nnx.gelu(self.up(self.norm(x)), approximate=False))


class CrossLayer(Layer):
    """A layer of the decoder, which attends to what the encoder found, too."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        super().__init__(rngs)
        self.cross, self.cross_norm = Attention(rngs), nnx.LayerNorm(WIDTH, rngs=rngs)


class Whisper(nnx.Module):
    """The encoder of sound and the decoder of text."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(MELS, WIDTH, (3,), padding=1, rngs=rngs)
        self.second = nnx.Conv(WIDTH, WIDTH, (3,), strides=2, padding=1, rngs=rngs)
        self.encoder = nnx.List([Layer(rngs) for _ in range(LAYERS)])
        self.decoder = nnx.List([CrossLayer(rngs) for _ in range(LAYERS)])
        self.encoder_norm, self.decoder_norm = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        # Large enough, and the head no transposed table, so that greedy texts do not repeat one word.
        drawn = nnx.initializers.normal(1.0)
        self.words = nnx.Embed(WORDS, WIDTH, embedding_init=drawn, rngs=rngs)
        self.head = nnx.Linear(WIDTH, WORDS, use_bias=False, rngs=rngs)
        self.places = nnx.Embed(LENGTH, WIDTH, embedding_init=drawn, rngs=rngs)
        self.frames = nnx.Embed(FRAMES // 2, WIDTH, embedding_init=drawn, rngs=rngs)

    def encode(self, features: jax.Array) -> jax.Array:
        """Hidden states [B, 1500, D] of features [B, M, 3000]."""
        x = nnx.gelu(self.first(features.swapaxes(1, 2)), approximate=False)
        x = nnx.gelu(self.second(x), approximate=False) + self.frames(jnp.arange(FRAMES // 2))
        for layer in self.encoder:
            h = layer.attention_norm(x)
            x = layer.rest(x + layer.attention(h, layer.attention.pair(h)))
        return self.encoder_norm(x)

    def crossed(self, memory: jax.Array) -> list[dict[str, jax.Array]]:
        """The keys and values of each layer of the decoder."""
        return [layer.cross.pair(memory) for layer in self.decoder]

    def decode(self, tokens: jax.Array, cross: Any, cache: Any) -> tuple[jax.Array, Any]:
        """Logits [B, T, V] of tokens [B, T], and the caches [B, S, N, H] with their keys and values."""
        past, count, kept = cache[0]["key"].shape[1], tokens.shape[1], []
        positions = past + jnp.arange(count)
        mask = (jnp.arange(past + count) <= positions[:, None])[None, None]
        x = self.words(tokens) + self.places(positions)
        for layer, memory, old in zip(self.decoder, cross, cache, strict=True):
            h = layer.attention_norm(x)
            new = layer.attention.pair(h)
            kept.append({name: jnp.concatenate([old[name], new[name]], 1) for name in new})
            x = x + layer.attention(h, kept[-1], mask)
            x = layer.rest(x + layer.cross(layer.cross_norm(x), memory))
        return self.head(self.decoder_norm(x)), kept


def bundle(model: Whisper, *, hidden: bool) -> Bundle:
    """The two programs; the encoder hands over hidden states, or the keys and values of each layer of the decoder."""

    def encode(features: jax.Array) -> dict[str, Any]:
        memory = model.encode(features)
        return {"memory": memory if hidden else model.crossed(memory)}

    def decode(tokens: jax.Array, memory: Any, cache: Any) -> dict[str, Any]:
        logits, cache = model.decode(tokens, model.crossed(memory) if hidden else memory, cache)
        return {"logits": logits, "cache": cache}

    def pairs(length: int | str) -> Any:
        return [dict.fromkeys(("key", "value"), ("B", length, HEADS, WIDTH // HEADS))] * LAYERS

    memory = ("B", FRAMES // 2, WIDTH) if hidden else pairs(FRAMES // 2)
    inputs = [(("B", "T"), "int32"), memory, pairs("S")]
    programs = {
        "encode": to_onnx(encode, [("B", MELS, FRAMES)]),
        "decode": to_onnx(decode, inputs, states={"cache": "cache"}, constraints=["S >= 0"]),
    }
    names = [""] if hidden else [f".{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
    return Bundle(programs, links={f"encode.memory{name}": f"decode.memory{name}" for name in names})


def continued(model: Whisper, features: np.ndarray, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The greedy continuations of prompts of one length in JAX, which do not end."""
    cross = model.crossed(model.encode(jnp.asarray(features)))
    empty = jnp.zeros((len(prompts), 0, HEADS, WIDTH // HEADS))
    cache: Any = [{"key": empty, "value": empty}] * LAYERS
    texts, tokens = [list[int]() for _ in prompts], np.array(prompts, np.int32)
    for _ in range(count):
        logits, cache = model.decode(jnp.asarray(tokens), cross, cache)
        tokens = np.array(logits[:, -1:].at[..., END].set(-jnp.inf)).argmax(-1).astype(np.int32)
        for text, token in zip(texts, tokens[:, 0], strict=True):
            text.append(int(token))
    return texts
