"""Decoders in JAX as their authors write them, with caches of a fixed capacity, for tests and benchmarks.

Each has 8 layers of width 1024 in float32: one like Qwen 3 in four writings of attention, one like Gemma 3 (keys repeated
for the query heads, sliding windows), and one like Mamba, whose states have no length.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["DECODERS", "STATES", "Decoder"]

LAYERS, WIDTH, HIDDEN, WORDS = 8, 1024, 3072, 8192
STATES = 2 * LAYERS  # two for each layer

Attention = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]
Weights = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Decoder:
    """One step of a decoder.

    Attributes:
      step: words [1, T], their place and the states → the logits of the next word, and the states.
      arguments: those of `step` for (new words, words before and with them, capacity of the caches); the last are the states.
      layout: the layout in which the model holds the states, where it is another than that of the function.
    """

    step: Callable[..., Any]
    arguments: Callable[[int, int, int], list[np.ndarray]]
    layout: str | None = None


@functools.cache
def weights(**shapes: tuple[int, ...]) -> tuple[list[Weights], jax.Array]:
    """The weights of each layer, and the table of words."""
    rng = np.random.default_rng(0)

    def drawn(shape: tuple[int, ...]) -> jax.Array:
        with jax.ensure_compile_time_eval():  # the first call is within a trace
            return jnp.asarray(rng.standard_normal(shape, dtype=np.float32) / np.float32(WIDTH**0.5))

    return [{name: drawn(shape) for name, shape in shapes.items()} for _ in range(LAYERS)], drawn((WORDS, WIDTH))


def arguments(shape: Callable[[int], tuple[int, ...]], new: int, filled: int, capacity: int) -> list[np.ndarray]:
    """The arguments of a step: token ids, the position of the first, and caches of random numbers.

    Args:
      shape: the shape of a cache by its capacity.
      new: the number of tokens.
      filled: the number of positions that are filled after the step.
      capacity: the number of positions in a cache.
    """
    rng = np.random.default_rng(1)
    words = rng.integers(0, WORDS, (1, new)).astype(np.int32)
    caches = [rng.standard_normal(shape(capacity), dtype=np.float32) for _ in range(STATES)]
    return [words, np.array(filled - new, np.int32), *caches]


# -- Qwen 3 ---------------------------------------------------------------------------------

HEADS, KEY_HEADS, FEATURES = 16, 8, 64


def normalised(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def rotated(x: jax.Array, positions: jax.Array) -> jax.Array:
    features = x.shape[-1]
    angles = positions[:, :, None, None] * 1e4 ** (-jnp.arange(0, features, 2) / features)
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate(
        [x1 * jnp.cos(angles) - x2 * jnp.sin(angles), x2 * jnp.cos(angles) + x1 * jnp.sin(angles)], -1
    )


def by_einsum(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Attention with grouped heads by einsum, as Qwen 3 is often written.

    Args:
      q: [B, T, N, H].
      k: [B, S, K, H].
      v: [B, S, K, H].
      mask: booleans [T, S], True where a query attends to a key.
    """
    grouped = q.reshape(*q.shape[:2], k.shape[2], -1, q.shape[3])
    logits = jnp.einsum("BTKGH,BSKH->BTSKG", grouped, k) / np.sqrt(q.shape[3])
    logits = jnp.where(mask[None, :, :, None, None], logits, jnp.finfo(logits.dtype).min)
    return jnp.einsum("BTSKG,BSKH->BTKGH", jax.nn.softmax(logits, 2), v).reshape(q.shape)


def by_repetition(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Attention with keys and values repeated for the query heads, and with the heads before the positions.

    Args:
      q: [B, T, N, H].
      k: [B, S, K, H].
      v: [B, S, K, H].
      mask: booleans [T, S], True where a query attends to a key.
    """
    q, k, v = (x.swapaxes(1, 2) for x in (q, *(jnp.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))))
    logits = q @ k.swapaxes(2, 3) * q.shape[3] ** -0.5
    return (jax.nn.softmax(jnp.where(mask, logits, -1e9), -1) @ v).swapaxes(1, 2)


def by_function(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Attention by `jax.nn`.

    Args:
      q: [B, T, N, H].
      k: [B, S, K, H].
      v: [B, S, K, H].
      mask: booleans [T, S], True where a query attends to a key.
    """
    return jax.nn.dot_product_attention(q, k, v, mask=mask[None, None])


def qwen(
    attend: Attention, words: jax.Array, place: jax.Array, *caches: jax.Array, is_heads_first: bool = False
) -> tuple[jax.Array, ...]:
    """A step of a decoder as in Qwen 3.

    Args:
      attend: computes the attention.
      words: token ids, [B, T].
      place: the position of the first token, a scalar.
      caches: the keys and values of each layer.
      is_heads_first: whether the caches are [B, K, S, H] rather than [B, S, K, H].

    Returns:
      The logits, and the new caches.
    """
    layers, table = weights(
        query=(WIDTH, HEADS, FEATURES), key=(WIDTH, KEY_HEADS, FEATURES), value=(WIDTH, KEY_HEADS, FEATURES),
        out=(HEADS, FEATURES, WIDTH), gate=(WIDTH, HIDDEN), up=(WIDTH, HIDDEN), down=(HIDDEN, WIDTH),
    )  # fmt: skip
    x, positions, results = table[words], place + jnp.arange(words.shape[1])[None], []
    for layer, kept in zip(layers, zip(caches[::2], caches[1::2], strict=True), strict=True):
        h = normalised(x)
        q, k, v = (jnp.einsum("BTD,DNH->BTNH", h, layer[name]) for name in ("query", "key", "value"))
        q, k = (rotated(normalised(part), positions) for part in (q, k))
        whole = []
        for cache, new in zip(kept, (k, v), strict=True):
            start = (0, 0, place, 0) if is_heads_first else (0, place, 0, 0)
            results.append(jax.lax.dynamic_update_slice(cache, new.swapaxes(1, 2) if is_heads_first else new, start))
            whole.append(results[-1].swapaxes(1, 2) if is_heads_first else results[-1])
        mask = jnp.arange(whole[0].shape[1]) <= positions[0][:, None]
        x = x + jnp.einsum("BTNH,NHD->BTD", attend(q, whole[0], whole[1], mask), layer["out"])
        h = normalised(x)
        x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
    return normalised(x)[:, -1] @ table.T, *results


# -- Gemma 3 --------------------------------------------------------------------------------

GEMMA_HEADS, GEMMA_FEATURES, WINDOW = 4, 256, 512


def scaled(x: jax.Array, weight: jax.Array) -> jax.Array:
    return normalised(x) * (1 + weight)


def gemma(words: jax.Array, place: jax.Array, *caches: jax.Array) -> tuple[jax.Array, ...]:
    """A step of a decoder as in Gemma 3.

    Args:
      words: token ids, [B, T].
      place: the position of the first token, a scalar.
      caches: the keys and values of each layer.

    Returns:
      The logits, and the new caches.
    """
    norms = dict.fromkeys(("before", "after", "before_hidden", "after_hidden"), (WIDTH,))
    layers, table = weights(
        **norms, query_norm=(GEMMA_FEATURES,), key_norm=(GEMMA_FEATURES,), query=(WIDTH, GEMMA_HEADS, GEMMA_FEATURES),
        key=(WIDTH, 1, GEMMA_FEATURES), value=(WIDTH, 1, GEMMA_FEATURES), out=(GEMMA_HEADS, GEMMA_FEATURES, WIDTH),
        gate=(WIDTH, HIDDEN), up=(WIDTH, HIDDEN), down=(HIDDEN, WIDTH),
    )  # fmt: skip
    x, positions, results = table[words] * WIDTH**0.5, place + jnp.arange(words.shape[1])[None], []
    keys = jnp.arange(caches[0].shape[1])
    causal = keys <= positions[0][:, None]
    window = causal & (keys > positions[0][:, None] - WINDOW)
    for i, layer in enumerate(layers):
        h = scaled(x, layer["before"])
        q, k, v = (jnp.einsum("BTD,DNH->BTNH", h, layer[name]) for name in ("query", "key", "value"))
        q, k = (rotated(scaled(part, layer[f"{name}_norm"]), positions) for part, name in ((q, "query"), (k, "key")))
        for cache, new in zip(caches[2 * i : 2 * i + 2], (k, v), strict=True):
            results.append(jax.lax.dynamic_update_slice(cache, new, (0, place, 0, 0)))
        attended = by_repetition(q, results[-2], results[-1], causal if i % 6 == 5 else window)
        x = x + scaled(jnp.einsum("BTNH,NHD->BTD", attended, layer["out"]), layer["after"])
        h = scaled(x, layer["before_hidden"])
        h = (jax.nn.gelu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
        x = x + scaled(h, layer["after_hidden"])
    return normalised(x)[:, -1] @ table.T, *results


# -- Mamba ----------------------------------------------------------------------------------

INNER, STATE, RANK, KERNEL = 2 * WIDTH, 16, WIDTH // 16, 4


def mamba(words: jax.Array, *states: jax.Array) -> tuple[jax.Array, ...]:
    layers, table = weights(
        into=(WIDTH, 2 * INNER), kernel=(KERNEL, INNER), select=(INNER, RANK + 2 * STATE), step=(RANK, INNER),
        rate=(INNER, STATE), skip=(INNER,), out=(INNER, WIDTH),
    )  # fmt: skip
    x, results = table[words[:, 0]], []
    for layer, recent, state in zip(layers, states[::2], states[1::2], strict=True):
        h, gate = jnp.split(normalised(x) @ layer["into"], 2, -1)
        recent = jnp.concatenate([recent[:, 1:], h[:, None]], axis=1)
        h = jax.nn.silu((recent * layer["kernel"]).sum(1))
        step, into, out = jnp.split(h @ layer["select"], [RANK, RANK + STATE], -1)
        step = jax.nn.softplus(step @ layer["step"])
        kept = jnp.exp(step[..., None] * -jnp.exp(layer["rate"]))
        state = kept * state + (step * h)[..., None] * into[:, None]
        y = (state * out[:, None]).sum(-1) + layer["skip"] * h
        x = x + (y * jax.nn.silu(gate)) @ layer["out"]
        results += [recent, state]
    return normalised(x) @ table.T, *results


def mamba_arguments(new: int, filled: int, capacity: int) -> list[np.ndarray]:
    """The arguments of a step of a Mamba: one token id, and states, whose size is fixed.

    Args:
      new: the number of tokens, which is one whatever this says.
      filled: not used.
      capacity: not used.
    """
    rng = np.random.default_rng(1)
    states = [
        rng.standard_normal(shape, dtype=np.float32) for shape in ((1, KERNEL, INNER), (1, INNER, STATE)) * LAYERS
    ]
    return [rng.integers(0, WORDS, (1, 1)).astype(np.int32), *states]


def _qwen(attend: Attention, *, is_heads_first: bool = False, layout: str | None = None) -> Decoder:
    def shape(capacity: int) -> tuple[int, ...]:
        return (1, KEY_HEADS, capacity, FEATURES) if is_heads_first else (1, capacity, KEY_HEADS, FEATURES)

    return Decoder(
        lambda *xs: qwen(attend, *xs, is_heads_first=is_heads_first),
        lambda new, filled, capacity: arguments(shape, new, filled, capacity),
        layout,
    )


#: Kind → writing → decoder.
DECODERS: dict[str, dict[str, Decoder]] = {
    "qwen": {
        "einsum of grouped heads": _qwen(by_einsum),
        "repeated keys": _qwen(by_repetition),
        "dot_product_attention": _qwen(by_function),
        "einsum, caches held with heads first": _qwen(by_einsum, layout="BSKH->BKSH"),
        "dot_product_attention, caches of heads first": _qwen(by_function, is_heads_first=True),
    },
    "gemma": {
        "repeated keys": Decoder(
            gemma,
            lambda new, filled, capacity: arguments(lambda size: (1, size, 1, GEMMA_FEATURES), new, filled, capacity),
        )
    },
    "mamba": {"states without a length": Decoder(mamba, mamba_arguments)},
}
