"""Small decoders as people write them in JAX: with caches that grow or have a capacity, with masks of all forms, and recurrent ones.

All transformers here are one function, `forward`, computed with caches of several kinds.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

__all__ = [
    "BATCHED_TOKENS", "VOCABULARY", "LinenDecoder", "NnxDecoder", "Params", "capacity", "capacity_masked", "causal_mask", "forward", "from_mask", "growing",
    "growing_masked", "last_only", "make_params", "one_row", "prompts", "recurrent", "recurrent_forward", "recurrent_step", "reference", "rolling", "shared_start", "step_of", "transformer", "windowed",
]  # fmt: skip

VOCABULARY, WIDTH, HEADS, LAYERS = 37, 16, 2, 2
SIZE = WIDTH // HEADS
BATCHED_TOKENS = (("B", "T"), "int32")

Params = dict[str, jax.Array]


def make_params(seed: int = 0) -> Params:
    """Random weights, large enough for attention to matter."""
    keys = iter(jax.random.split(jax.random.key(seed), 99))
    params = {"embed": jax.random.normal(next(keys), (VOCABULARY, WIDTH))}
    for layer in range(LAYERS):
        for name in ("q", "k", "v", "o"):
            params[f"{name}{layer}"] = jax.random.normal(next(keys), (WIDTH, WIDTH)) / WIDTH**0.5
        params[f"up{layer}"] = jax.random.normal(next(keys), (WIDTH, 2 * WIDTH)) / WIDTH**0.5
        params[f"down{layer}"] = jax.random.normal(next(keys), (2 * WIDTH, WIDTH)) / (2 * WIDTH) ** 0.5
    params["head"] = jax.random.normal(next(keys), (WIDTH, VOCABULARY))
    return params


def rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary position embedding of x [B, T, H, D] at positions [B, T], with absolute positions added, so that these matter, too."""
    angles = positions[:, :, None, None] * 10.0 ** -jnp.linspace(0, 2, SIZE // 2)
    a, b = jnp.split(x, 2, axis=-1)
    turned = jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1)
    return turned + 0.3 * jnp.sin(positions / 3.0)[:, :, None, None]


def norm(x: jax.Array) -> jax.Array:
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def transformer(
    params: Params,
    tokens: jax.Array,
    positions: jax.Array,
    keep: Callable[[int, jax.Array], jax.Array],
    mask: jax.Array,
) -> jax.Array:
    """Logits [B, T, V] of tokens [B, T] at positions [B, T].

    `keep(i, x)` puts new keys or values x [B, T, H, D] into the cache i, and returns all of them [B, K, H, D]; the mask [B, 1, T, K] is of
    booleans, or of floats to be added.
    """
    x = params["embed"][tokens]
    for layer in range(LAYERS):
        h = norm(x)
        q, k, v = ((h @ params[f"{name}{layer}"]).reshape(*tokens.shape, HEADS, SIZE) for name in "qkv")
        keys, values = keep(2 * layer, rotate(k, positions)), keep(2 * layer + 1, v)
        scores = jnp.einsum("bthd,bkhd->bhtk", rotate(q, positions), keys) / SIZE**0.5
        scores = jnp.where(mask, scores, -1e9) if mask.dtype == bool else scores + mask
        seen = jnp.einsum("bhtk,bkhd->bthd", jax.nn.softmax(scores, axis=-1), values)
        x = x + seen.reshape(x.shape) @ params[f"o{layer}"]
        x = x + jax.nn.gelu(norm(x) @ params[f"up{layer}"]) @ params[f"down{layer}"]
    return norm(x) @ params["head"]


def causal_mask(new: int, total: int) -> jax.Array:
    """[1, 1, new, total]: what the last `new` of `total` tokens see."""
    return jnp.tril(jnp.ones((new, total), bool), total - new)[None, None]


def forward(params: Params, tokens: jax.Array) -> jax.Array:
    """Logits [B, T, V] without caches."""
    count = tokens.shape[1]
    positions = jnp.broadcast_to(jnp.arange(count), tokens.shape)
    return transformer(params, tokens, positions, lambda _, x: x, causal_mask(count, count))


def reference(
    params: Params, prompt: list[int], count: int, forward: Callable[[Params, jax.Array], jax.Array] = forward
) -> list[int]:
    """The loop in JAX: the likeliest tokens after a prompt, each computed from all that are before it."""
    tokens = list(prompt)
    for _ in range(count):
        padded = jnp.array([tokens + [0] * (64 - len(tokens))])
        tokens.append(int(jitted(forward)(params, padded)[0, len(tokens) - 1].argmax()))
    return tokens[len(prompt) :]


_COMPILED: dict[Callable[..., jax.Array], Callable[..., jax.Array]] = {}


def jitted(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """A function, compiled once for all that call it."""
    return _COMPILED.setdefault(function, jax.jit(function))


# -- caches that grow -----------------------------------------------------------------------


def _growing(caches: list[jax.Array], new: dict[int, jax.Array]) -> Callable[[int, jax.Array], jax.Array]:
    def keep(number: int, x: jax.Array) -> jax.Array:
        new[number] = jnp.concatenate([caches[number], x], axis=1)
        return new[number]

    return keep


def growing(params: Params):
    """(tokens, caches) → (logits, caches); the positions follow from the caches."""

    def decode(tokens, caches):
        new: dict[int, jax.Array] = {}
        past = caches[0].shape[1]
        count = tokens.shape[1]
        positions = jnp.broadcast_to(past + jnp.arange(count), tokens.shape)
        logits = transformer(params, tokens, positions, _growing(caches, new), causal_mask(count, past + count))
        return {"logits": logits}, [new[i] for i in range(len(caches))]

    return decode


def last_only(params: Params):
    """Like `growing`, with the logits [B, V] of the last token."""
    decode = growing(params)

    def decode_last(tokens, caches):
        outputs, caches = decode(tokens, caches)
        return {"logits": outputs["logits"][:, -1]}, caches

    return decode_last


def one_row(params: Params):
    """(tokens [T], caches) → (logits [T, V], caches), of one sequence."""
    decode = growing(params)

    def decode_row(tokens, caches):
        outputs, caches = decode(tokens[None], caches)
        return outputs["logits"][0], caches

    return decode_row


def growing_masked(params: Params, form: str):
    """(tokens, positions, mask, caches) → (logits, caches); `form` says what the mask is."""

    def decode(tokens, positions, mask, caches):
        new: dict[int, jax.Array] = {}
        past, count = caches[0].shape[1], tokens.shape[1]
        causal = causal_mask(count, past + count)
        seen = {
            "padding": lambda: causal & (mask != 0)[:, None, None],  # [B, S + T], of booleans or integers
            "infinite": lambda: jnp.where(
                causal & mask[:, None, None], 0, -jnp.inf
            ),  # [B, S + T], NaN for what sees nothing
            "added": lambda: mask,  # [B, 1, T, S + T]
            "ones": lambda: mask != 0,  # the same, 1 for what is seen
            "shared": lambda: mask[None, None],  # [T, S + T]
        }[form]()
        logits = transformer(params, tokens, positions, _growing(caches, new), seen)
        return {"logits": logits}, [new[i] for i in range(len(caches))]

    return decode


def from_mask(params: Params):
    """(tokens, mask [B, S + T], caches): positions are counted in the mask."""

    def decode(tokens, mask, caches):
        positions = jnp.maximum(jnp.cumsum(mask, axis=1)[:, -tokens.shape[1] :] - 1, 0)
        return growing_masked(params, "padding")(tokens, positions, mask, caches)

    return decode


def windowed(params: Params, window: int):
    """Logits without caches, where each token sees so many before it, and itself."""

    def forward_windowed(params, tokens):
        count = tokens.shape[1]
        places = jnp.arange(count)
        near = (places[:, None] - places) <= window
        positions = jnp.broadcast_to(places, tokens.shape)
        return transformer(params, tokens, positions, lambda _, x: x, causal_mask(count, count) & near)

    return forward_windowed


# -- caches with a capacity --------------------------------------------------------------------


def capacity(params: Params):
    """(tokens, positions [B, T], caches [B, C, H, D]) → (logits, caches); each row is written at its own positions."""

    def decode(tokens, positions, caches):
        new, rows = {}, jnp.arange(tokens.shape[0])[:, None]

        def keep(number, x):
            new[number] = caches[number].at[rows, positions].set(x)
            return new[number]

        seen = jnp.arange(caches[0].shape[1]) <= positions[:, :, None]
        logits = transformer(params, tokens, positions, keep, seen[:, None])
        return {"logits": logits}, [new[i] for i in range(len(caches))]

    return decode


def shared_start(params: Params):
    """(tokens, position [], caches): all rows are written from one position on."""

    def decode(tokens, position, caches):
        new, places = {}, position + jnp.arange(tokens.shape[1])

        def keep(number, x):
            new[number] = jax.lax.dynamic_update_slice(caches[number], x, (0, position, 0, 0))
            return new[number]

        seen = jnp.arange(caches[0].shape[1]) <= places[:, None]
        positions = jnp.broadcast_to(places, tokens.shape)
        logits = transformer(params, tokens, positions, keep, seen[None, None])
        return {"logits": logits}, [new[i] for i in range(len(caches))]

    return decode


def capacity_masked(params: Params):
    """(tokens, positions, mask [B, 1, T, C], index, caches): rows have positions, but are written where the index stands."""

    def decode(tokens, positions, mask, index, caches):
        new = {}

        def keep(number, x):
            new[number] = jax.lax.dynamic_update_slice(caches[number], x, (0, index, 0, 0))
            return new[number]

        logits = transformer(params, tokens, positions, keep, mask)
        return {"logits": logits}, index + tokens.shape[1], [new[i] for i in range(len(caches))]

    return decode


def rolling(params: Params, window: int):
    """(tokens [B, 1], position [], caches of so many places): a token is written at its position modulo the window."""

    def decode(tokens, position, caches):
        new = {}

        def keep(number, x):
            new[number] = jax.lax.dynamic_update_slice(caches[number], x, (0, position % window, 0, 0))
            return new[number]

        seen = jnp.arange(window) <= position
        logits = transformer(params, tokens, jnp.full(tokens.shape, position), keep, seen[None, None, None])
        return {"logits": logits}, [new[i] for i in range(len(caches))]

    return decode


# -- recurrent ---------------------------------------------------------------------------------


def step_of(params: Params, state: jax.Array, token: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A recurrent decoder, of one token [B]: state [B, WIDTH] → the new state, logits [B, V]."""
    state = jnp.tanh(0.9 * state @ params["q0"] + params["embed"][token] @ params["k0"])
    return state, norm(state) @ params["head"]


def recurrent(params: Params):
    """(tokens [B, T], state) → (logits [B, T, V], state)."""

    def decode(tokens, state):
        state, logits = jax.lax.scan(lambda s, t: step_of(params, s, t), state, tokens.T)
        return {"logits": logits.swapaxes(0, 1)}, state

    return decode


def recurrent_forward(params: Params, tokens: jax.Array) -> jax.Array:
    """The logits [B, T, V] of the recurrent decoder from its first state on."""
    return recurrent(params)(tokens, jnp.zeros((len(tokens), WIDTH)))[0]["logits"]


def recurrent_step(params: Params):
    """(tokens [B], state) → (logits [B, V], state)."""

    def decode(tokens, state):
        state, logits = step_of(params, state, tokens)
        return {"logits": logits}, state

    return decode


# -- layers of frameworks ----------------------------------------------------------------------


class NnxDecoder(nnx.Module):
    """Attention of Flax NNX with its own cache; positions come from nowhere but the cache."""

    def __init__(self, rngs: nnx.Rngs, length: int) -> None:
        self.embed = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
        self.attention = nnx.List(
            [nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs) for _ in range(LAYERS)]
        )
        self.mix = nnx.List([nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(LAYERS)])
        self.head = nnx.Linear(WIDTH, VOCABULARY, rngs=rngs)
        self.length = length

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = 3 * self.embed(tokens)
        mask = nnx.make_causal_mask(tokens) if tokens.shape[1] > 1 else None
        for attention, mix in zip(self.attention, self.mix, strict=True):
            x = x + 3 * attention(norm(x), mask=mask)
            x = x + jnp.tanh(mix(x))
        return self.head(norm(x))

    def add_cache(self) -> None:
        """From here on a call takes one token."""
        self.set_attributes(decode=True, raise_if_not_found=False)
        for attention in self.attention:
            attention.init_cache((1, self.length, WIDTH))


class LinenDecoder(linen.Module):
    """Attention of Flax Linen with its own cache."""

    decode: bool = False

    @linen.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = 3 * linen.Embed(VOCABULARY, WIDTH)(tokens)
        mask = None if self.decode else linen.make_causal_mask(tokens)
        for _ in range(LAYERS):
            x = x + 3 * linen.MultiHeadDotProductAttention(HEADS, decode=self.decode)(norm(x), norm(x), mask=mask)
            x = x + jnp.tanh(linen.Dense(WIDTH)(x))
        return linen.Dense(VOCABULARY)(norm(x))


def prompts(*lengths: int, seed: int = 0) -> list[list[int]]:
    """Random prompts of these lengths."""
    rng = np.random.default_rng(seed)
    return [rng.integers(1, VOCABULARY, length).tolist() for length in lengths]
