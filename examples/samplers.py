"""A decoder with its own sampler in one function, as libraries for training language models write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["BEAMS", "CACHE_SIZE", "VOCABULARY", "beam_search", "generate", "greedy", "parameters", "top_k_top_p"]

Array: TypeAlias = jax.Array
Parameters: TypeAlias = dict[str, dict[str, Array]]
Cache: TypeAlias = dict[str, Array]
Picker: TypeAlias = Callable[[Array, Array], Array]

VOCABULARY, FEATURES, HEADS, KEY_HEADS, HEAD_SIZE, LAYERS, HIDDEN, CACHE_SIZE = 64, 32, 4, 2, 8, 2, 64, 24
BEAMS = 3


def parameters() -> Parameters:
    """Random weights of the decoder."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> Array:
        return jnp.asarray(random.standard_normal(shape).astype(np.float32) / np.sqrt(shape[0]))

    layers = {
        f"layer_{number}": {
            "norm1": 1 + 0.1 * weight(FEATURES), "norm2": 1 + 0.1 * weight(FEATURES),
            "query": weight(FEATURES, HEADS, HEAD_SIZE), "key": weight(FEATURES, KEY_HEADS, HEAD_SIZE),
            "value": weight(FEATURES, KEY_HEADS, HEAD_SIZE), "out": weight(HEADS, HEAD_SIZE, FEATURES),
            "gate": weight(FEATURES, HIDDEN), "up": weight(FEATURES, HIDDEN), "down": weight(HIDDEN, FEATURES),
        }
        for number in range(LAYERS)
    }  # fmt: skip
    return {"model": {"embedding": weight(VOCABULARY, FEATURES), "norm": 1 + 0.1 * weight(FEATURES)}, **layers}


def rms_norm(x: Array, scale: Array) -> Array:
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale


def rotated(x: Array, positions: Array) -> Array:
    timescale = 10000.0 ** (2 * jnp.arange(0, HEAD_SIZE // 2) / HEAD_SIZE)
    angles = positions[..., None] / timescale
    sin, cos = jnp.sin(angles)[..., None, :], jnp.cos(angles)[..., None, :]
    left, right = jnp.split(x, 2, -1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1).astype(x.dtype)


def attention(layer: dict[str, Array], x: Array, positions: Array, cache: Cache, mask: Array) -> tuple[Array, Cache]:
    batch, length = x.shape[:2]
    query = rotated(jnp.einsum("btd,dnh->btnh", x, layer["query"]), positions)
    key = rotated(jnp.einsum("btd,dnh->btnh", x, layer["key"]), positions)
    value = jnp.einsum("btd,dnh->btnh", x, layer["value"])
    start = (0, cache["end"], 0, 0)
    keys = lax.dynamic_update_slice(cache["keys"], key, start)
    values = lax.dynamic_update_slice(cache["values"], value, start)
    grouped = query.reshape(batch, length, KEY_HEADS, HEADS // KEY_HEADS, HEAD_SIZE)
    logits = jnp.einsum("btkgh,bskh->btkgs", grouped, keys) * HEAD_SIZE**-0.5
    probabilities = jax.nn.softmax(jnp.where(mask[:, :, None, None, :], logits, -2.3819763e38), -1)
    mixed = jnp.einsum("btkgs,bskh->btkgh", probabilities, values).reshape(batch, length, HEADS, HEAD_SIZE)
    out = jnp.einsum("btnh,nhd->btd", mixed, layer["out"])
    return out, {"keys": keys, "values": values, "end": cache["end"] + length}


def decode(
    weights: Parameters, tokens: Array, positions: Array, caches: Sequence[Cache], mask: Array
) -> tuple[Array, list[Cache]]:
    """The logits [B, T, V] and the caches after these tokens."""
    model, new = weights["model"], []
    x = model["embedding"][tokens] * jnp.sqrt(jnp.float32(FEATURES))
    for number, cache in enumerate(caches):
        layer = weights[f"layer_{number}"]
        mixed, updated = attention(layer, rms_norm(x, layer["norm1"]), positions, cache, mask)
        x = x + mixed
        h = rms_norm(x, layer["norm2"])
        x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
        new.append(updated)
    return rms_norm(x, model["norm"]) @ model["embedding"].T, new


def greedy(logits: Array, _: Array) -> Array:
    return jnp.argmax(logits, -1).astype(jnp.int32)


def top_k_top_p(logits: Array, key: Array) -> Array:
    """One of the 8 most probable tokens, of those that have 90 % of the probability together."""
    probabilities, tokens = lax.top_k(jax.nn.softmax(logits / 0.7, -1), 8)
    kept = jnp.where(jnp.cumsum(probabilities, -1) - probabilities <= 0.9, probabilities, 0.0)
    chosen = jax.random.categorical(key, jnp.log(kept / kept.sum(-1, keepdims=True)))
    return jnp.take_along_axis(tokens, chosen[..., None], -1)[..., 0].astype(jnp.int32)


def generate(weights: Parameters, prompt: Array, key: Array, steps: Array, *, pick: Picker) -> Array:
    """The prompt [B, T] and up to `steps` tokens after it, until all sequences have ended with token 1: [B, CACHE_SIZE]."""
    batch, length = prompt.shape
    empty = jnp.zeros((batch, CACHE_SIZE, KEY_HEADS, HEAD_SIZE))
    caches = [{"keys": empty, "values": empty, "end": jnp.array(0, jnp.int32)} for _ in range(LAYERS)]
    slots = jnp.arange(CACHE_SIZE)
    positions = jnp.broadcast_to(jnp.arange(length), (batch, length))
    causal = jnp.broadcast_to(slots[None, None] <= jnp.arange(length)[:, None], (batch, length, CACHE_SIZE))
    logits, caches = decode(weights, prompt, positions, caches, causal)
    State: TypeAlias = tuple[Array, Array, list[Cache], Array, Array, Array]

    def goes_on(state: State) -> Array:
        step, *_, done = state
        return (step < length + steps) & (step < CACHE_SIZE) & ~jnp.all(done)

    def one_step(state: State) -> State:
        step, written, caches, logits, key, done = state
        key, own = jax.random.split(key)
        token = jnp.where(done, 0, pick(logits, own))
        written = lax.dynamic_update_slice(written, token[:, None], (0, step))
        position = jnp.broadcast_to(step, (batch, 1))
        mask = jnp.broadcast_to(slots <= step, (batch, 1, CACHE_SIZE))
        logits, caches = decode(weights, token[:, None], position, caches, mask)
        return step + 1, written, caches, logits[:, 0], key, done | (token == 1)

    written = lax.dynamic_update_slice(jnp.zeros((batch, CACHE_SIZE), jnp.int32), prompt, (0, 0))
    first = (jnp.asarray(length, jnp.int32), written, caches, logits[:, -1], key, jnp.zeros(batch, bool))
    return lax.while_loop(goes_on, one_step, first)[1]


def beam_search(weights: Parameters, prompt: Array, steps: Array) -> tuple[Array, Array]:
    """The best of the continuations of a prompt [T] by up to `steps` tokens, as rows [BEAMS, CACHE_SIZE], and their scores."""
    (length,) = prompt.shape
    empty = jnp.zeros((BEAMS, CACHE_SIZE, KEY_HEADS, HEAD_SIZE))
    caches = [{"keys": empty, "values": empty, "end": jnp.array(0, jnp.int32)} for _ in range(LAYERS)]
    slots = jnp.arange(CACHE_SIZE)
    positions = jnp.broadcast_to(jnp.arange(length), (BEAMS, length))
    causal = jnp.broadcast_to(slots <= jnp.arange(length)[:, None], (BEAMS, length, CACHE_SIZE))
    tokens = jnp.broadcast_to(prompt, (BEAMS, length))
    logits, caches = decode(weights, tokens, positions, caches, causal)
    State: TypeAlias = tuple[Array, Array, Array, list[Cache], Array]

    def one_step(state: State) -> State:
        step, written, scores, caches, logits = state
        totals = (scores[:, None] + jax.nn.log_softmax(logits)).reshape(-1)
        scores, best = lax.top_k(totals, BEAMS)
        beams, token = best // VOCABULARY, (best % VOCABULARY).astype(jnp.int32)
        written = lax.dynamic_update_slice(written[beams], token[:, None], (0, step))
        caches = [{"keys": c["keys"][beams], "values": c["values"][beams], "end": c["end"]} for c in caches]
        position, mask = jnp.full((BEAMS, 1), step), jnp.broadcast_to(slots <= step, (BEAMS, 1, CACHE_SIZE))
        logits, caches = decode(weights, token[:, None], position, caches, mask)
        return step + 1, written, scores, caches, logits[:, 0]

    written = lax.dynamic_update_slice(jnp.zeros((BEAMS, CACHE_SIZE), jnp.int32), tokens, (0, 0))
    scores = jnp.where(jnp.arange(BEAMS) == 0, 0.0, -jnp.inf)
    first = (jnp.asarray(length, jnp.int32), written, scores, caches, logits[:, -1])
    last = lax.while_loop(lambda state: state[0] < jnp.minimum(length + steps, CACHE_SIZE), one_step, first)
    return last[1], last[2]
