"""Decoders as users write them, and a stand-in for onnxruntime-genai that feeds a written model as it does."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
from jax2onnx_core import to_onnx

WORDS, WIDTH, LAYERS, HEADS, KEY_HEADS, FEATURES = 40, 16, 2, 4, 2, 8
PAD, END = 0, 39

Caches = Sequence[dict[str, jax.Array]]


def weights() -> Any:
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape, dtype=np.float32) * 2 / np.sqrt(shape[0], dtype=np.float32))

    layer = {
        "query": (WIDTH, HEADS, FEATURES),
        "key": (WIDTH, KEY_HEADS, FEATURES),
        "value": (WIDTH, KEY_HEADS, FEATURES),
    }
    layers = [{name: drawn(*shape) for name, shape in layer.items()} for _ in range(LAYERS)]
    outs = [drawn(HEADS * FEATURES, WIDTH) for _ in range(LAYERS)]
    return layers, outs, drawn(WORDS, WIDTH) * 3, drawn(WIDTH, WORDS)


WEIGHTS = weights()


def rotated(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary embedding of x [B, T, N, H] at positions [B, T]."""
    half = x.shape[-1] // 2
    angles = positions[..., None, None] * 100.0 ** (-jnp.arange(half) / half)
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate(
        [left * jnp.cos(angles) - right * jnp.sin(angles), right * jnp.cos(angles) + left * jnp.sin(angles)], -1
    )


def decoded(
    tokens: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    caches: Caches,
    extend: Callable[[jax.Array, jax.Array], jax.Array],
) -> tuple[jax.Array, list[dict[str, jax.Array]]]:
    """Logits [B, T, V], and the caches that `extend` makes of the old ones and the new keys or values [B, T, K, H]."""
    layers, outs, table, head = WEIGHTS
    x, kept = table[tokens], []
    for layer, out, cache in zip(layers, outs, caches, strict=True):
        h = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
        query, key, value = (jnp.einsum("btd,dnh->btnh", h, layer[name]) for name in ("query", "key", "value"))
        new = {"key": extend(cache["key"], rotated(key, positions)), "value": extend(cache["value"], value)}
        kept.append(new)
        y = jax.nn.dot_product_attention(rotated(query, positions), new["key"], new["value"], mask=mask)
        x = x + y.reshape(*tokens.shape, -1) @ out
    return x @ head, kept


def reference(prompt: Sequence[int], count: int, window: int = 1000) -> list[int]:
    """The greedy continuation of a prompt, computed by JAX on the whole text for each token."""

    @jax.jit
    def following(tokens: jax.Array, length: jax.Array) -> jax.Array:
        places = jnp.arange(tokens.shape[1])
        empty = [{"key": jnp.zeros(()), "value": jnp.zeros(())}] * LAYERS
        mask = ((places <= places[:, None]) & (places > places[:, None] - window))[None, None]
        logits, _ = decoded(tokens, places[None], mask, empty, lambda _, new: new)
        return logits[0, length - 1].argmax()

    text = np.full((1, len(prompt) + count), PAD, np.int32)
    text[0, : len(prompt)] = prompt
    for length in range(len(prompt), len(prompt) + count):
        text[0, length] = following(text, length)
    return [int(token) for token in text[0, len(prompt) :]]


# -- writings of a decoder --------------------------------------------------------------------------


@functools.cache
def grown() -> Any:
    """Caches [B, S, K, H] that grow, with positions [B, T] and a mask of booleans [B, 1, T, S + T]."""

    def step(tokens, positions, mask, cache):
        logits, new = decoded(tokens, positions, mask, cache, lambda old, x: jnp.concatenate([old, x], 1))
        return {"logits": logits, "cache": new}

    kept = ("B", "S", KEY_HEADS, FEATURES)
    inputs = [
        (("B", "T"), "int32"),
        (("B", "T"), "int32"),
        (("B", 1, "T", "S + T"), "bool"),
        [{"key": kept, "value": kept}] * LAYERS,
    ]
    return to_onnx(step, inputs, constraints=["S >= 0"], states={"cache": "cache"})


@functools.cache
def grown_heads_first() -> Any:
    """Caches [B, K, S, H] that grow; the mask of tokens [B, S + T] of integers, the number of a first position []."""

    def step(tokens, attention_mask, start, cache):
        count = tokens.shape[1]
        positions = start + jnp.arange(count)
        causal = jnp.arange(attention_mask.shape[1]) <= positions[:, None]
        mask = (causal & (attention_mask[:, None] > 0))[:, None]
        turned = [{name: x.swapaxes(1, 2) for name, x in layer.items()} for layer in cache]
        logits, new = decoded(tokens, positions[None], mask, turned, lambda old, x: jnp.concatenate([old, x], 1))
        return logits, [{name: x.swapaxes(1, 2) for name, x in layer.items()} for layer in new]

    kept = ("B", KEY_HEADS, "S", FEATURES)
    inputs = [(("B", "T"), "int32"), (("B", "S + T"), "int32"), ((), "int32"), [{"key": kept, "value": kept}] * LAYERS]
    return to_onnx(step, inputs, constraints=["S >= 0"], states={3: 1})


@functools.cache
def written(capacity: int | str = "C", batch: int | str = "B") -> Any:
    """Caches [B, C, K, H] that are written at a place, which is a state; positions [B, T], a mask of booleans [B, T, C]."""

    def step(tokens, positions, mask, state):
        place = state["place"]

        def extend(old, x):
            return jax.lax.dynamic_update_slice(old, x, (0, place, 0, 0))

        logits, new = decoded(tokens, positions, mask[:, None], state["layers"], extend)
        return {"logits": logits, "state": {"layers": new, "place": place + tokens.shape[1]}}

    kept = (batch, capacity, KEY_HEADS, FEATURES)
    state = {"layers": [{"key": kept, "value": kept}] * LAYERS, "place": ((), "int32")}
    inputs = [((batch, "T"), "int32"), ((batch, "T"), "int32"), ((batch, "T", capacity), "bool"), state]
    return to_onnx(step, inputs, constraints=[f"{capacity} >= T"], states={"state": "state"})


@functools.cache
def written_without_mask() -> Any:
    """Caches [B, K, C, H] that are written at a place, an argument []; the logits [B, V] of the last token."""

    def step(words, place, *caches):
        kept = [{"key": caches[2 * i].swapaxes(1, 2), "value": caches[2 * i + 1].swapaxes(1, 2)} for i in range(LAYERS)]
        positions = place + jnp.arange(words.shape[1])
        mask = (jnp.arange(kept[0]["key"].shape[1]) <= positions[:, None])[None, None]

        def extend(old, x):
            return jax.lax.dynamic_update_slice(old, x, (0, place, 0, 0))

        logits, new = decoded(words, positions[None], mask, kept, extend)
        return logits[:, -1], *(layer[name].swapaxes(1, 2) for layer in new for name in ("key", "value"))

    cache = ("B", KEY_HEADS, "C", FEATURES)
    states = {2 + i: 1 + i for i in range(2 * LAYERS)}
    inputs = [(("B", "T"), "int32"), ((), "int32"), *[cache] * (2 * LAYERS)]
    return to_onnx(step, inputs, constraints=["C >= T"], states=states)


@functools.cache
def written_at_place(window: int | None = None, ahead: int = 0, gap: int = 0) -> Any:
    """Caches [B, C, K, H] that are written at a place, an argument [], and attention to all places up to it.

    Args:
      window: only the last so many places are seen.
      ahead: how many later places are seen, too.
      gap: how many places behind it the caches are written.
    """

    def step(tokens, place, cache):
        positions = place + jnp.arange(tokens.shape[1])
        places = jnp.arange(cache[0]["key"].shape[1])
        mask = places <= positions[:, None] + ahead if ahead else places <= positions[:, None]
        if window is not None:
            mask &= places > positions[:, None] - window

        def extend(old, x):
            return jax.lax.dynamic_update_slice(old, x, (0, place + gap if gap else place, 0, 0))

        return decoded(tokens, positions[None], mask[None, None], cache, extend)

    kept = ("B", "C", KEY_HEADS, FEATURES)
    inputs = [(("B", "T"), "int32"), ((), "int32"), [{"key": kept, "value": kept}] * LAYERS]
    return to_onnx(step, inputs, constraints=["C >= T"], states={2: 1})


@functools.cache
def one_token() -> Any:
    """As `written`, for one token at a time."""
    return written().specialize(T=1)


def _by_loop(
    tokens: jax.Array, positions: jax.Array, mask: jax.Array, caches: Any, extend: Any
) -> tuple[jax.Array, Any]:
    """As `decoded`, by a `lax.scan` over weights and caches of all layers."""
    layers, outs, table, head = WEIGHTS
    stacked = jax.tree.map(
        lambda *x: jnp.stack(x), *[{**layer, "out": o} for layer, o in zip(layers, outs, strict=True)]
    )

    def body(x: jax.Array, given: Any) -> Any:
        layer, cache = given
        h = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
        query, key, value = (jnp.einsum("btd,dnh->btnh", h, layer[name]) for name in ("query", "key", "value"))
        new = {"key": extend(cache["key"], rotated(key, positions)), "value": extend(cache["value"], value)}
        y = jax.nn.dot_product_attention(rotated(query, positions), new["key"], new["value"], mask=mask)
        return x + y.reshape(*tokens.shape, -1) @ layer["out"], new

    x, kept = jax.lax.scan(body, table[tokens], (stacked, caches))
    return x @ head, kept


@functools.cache
def stacked(
    *,
    by_loop: bool,
    is_written: bool,
    axes: Sequence[int] = range(5),
    batch: int | str = "B",
    capacity: int | str = "C",
) -> Any:
    """Caches of all layers in one array: [L, B, S, K, H] that grow, or [L, B, C, K, H] that are written at a place.

    Args:
      by_loop: whether a `lax.scan` goes through the layers, or they take and give entries of the array.
      is_written: whether the caches have a capacity.
      axes: the axes of the arrays by those of these shapes.
      batch: the number of texts.
      capacity: the number of places of caches that are written.
    """

    def step(tokens, positions, mask, given, place):
        cache = {name: x.transpose(axes) for name, x in given.items()}

        def extend(old, x):
            if is_written:
                return jax.lax.dynamic_update_slice(old, x, (0, place, 0, 0))
            return jnp.concatenate([old, x], 1)

        if by_loop:
            logits, new = _by_loop(tokens, positions, mask, cache, extend)
        else:
            layers = [{name: x[i] for name, x in cache.items()} for i in range(LAYERS)]
            logits, kept = decoded(tokens, positions, mask, layers, extend)
            new = {name: jnp.stack([layer[name] for layer in kept]) for name in cache}
        turned = {name: x.transpose(np.argsort(axes)) for name, x in new.items()}
        return {"logits": logits, "cache": turned, "place": place + tokens.shape[1]}

    length, keys = (capacity, capacity) if is_written else ("S", "S + T")
    whole, tokens = (LAYERS, batch, length, KEY_HEADS, FEATURES), ((batch, "T"), "int32")
    kept = tuple(whole[i] for i in np.argsort(axes))
    inputs = [tokens, tokens, ((batch, 1, "T", keys), "bool"), {"key": kept, "value": kept}, ((), "int32")]
    constraints = [f"{length} >= T" if is_written else "S >= 0"]
    return to_onnx(step, inputs, constraints=constraints, states={"given": "cache", "place": "place"})


# -- the stand-in for onnxruntime-genai -----------------------------------------------------------------


@dataclasses.dataclass
class GenaiStandIn:
    """Feeds the model in a folder as onnxruntime-genai does.

    Sequences of a batch are filled up at the right; positions count the tokens that are no padding; caches that grow are
    fed as they came, others are one piece of memory before and after a step.
    """

    folder: Path

    def __post_init__(self) -> None:
        content = json.loads((self.folder / "genai_config.json").read_text())
        self.model, self.search = content["model"], content["search"]
        self.session = ort.InferenceSession(self.folder / self.model["decoder"]["filename"])
        self.types = {value.name: value.type for value in self.session.get_inputs()}
        self.memory: dict[str, Any] = {}

    def texts(self, prompts: Sequence[Sequence[int]], count: int, length: int = 32) -> list[list[int]]:
        """The greedy continuations of prompts."""
        width = max(map(len, prompts))
        tokens = np.array(
            [[*prompt, *[self.model["pad_token_id"]] * (width - len(prompt))] for prompt in prompts], np.int32
        )
        mask = np.array([[1] * len(prompt) + [0] * (width - len(prompt)) for prompt in prompts], np.int32)
        positions = np.maximum(np.cumsum(mask, 1, dtype=np.int32) - 1, 0) * mask
        caches = self._empty(len(prompts), length)
        last, texts = mask.sum(1) - 1, [list[int]() for _ in prompts]
        chunk = self.search.get("chunk_size", width)
        for start in range(0, width, chunk):
            end = min(start + chunk, width)
            logits, caches = self._step(tokens[:, start:end], mask[:, :end], positions[:, start:end], caches)
        chosen = logits[np.arange(len(prompts)), np.minimum(last, logits.shape[1] - 1)].argmax(-1)
        positions = mask.sum(1, keepdims=True).astype(np.int32)
        for _ in range(count):
            for text, token in zip(texts, chosen, strict=True):
                text.append(int(token))
            mask = np.concatenate([mask, np.ones((len(prompts), 1), np.int32)], 1)
            logits, caches = self._step(chosen[:, None].astype(np.int32), mask, positions, caches)
            positions, chosen = positions + 1, logits[:, -1].argmax(-1)
        return texts

    def _empty(self, batch: int, length: int) -> dict[str, ort.OrtValue]:
        decoder = self.model["decoder"]
        places = length if self.search["past_present_share_buffer"] else 0
        shape = (batch, decoder["num_key_value_heads"], places, decoder["head_size"])
        names = [
            decoder["inputs"][f"past_{kind}_names"] % i
            for i in range(decoder["num_hidden_layers"])
            for kind in ("key", "value")
        ]
        dtype = np.float16 if self.types[names[0]] == "tensor(float16)" else np.float32
        # A value uses the memory of its array.
        self.memory = {name: np.zeros(shape, dtype) for name in names}
        return {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in self.memory.items()}

    def _step(
        self, tokens: Any, mask: Any, positions: Any, caches: dict[str, ort.OrtValue]
    ) -> tuple[Any, dict[str, ort.OrtValue]]:
        binding, shared = self.session.io_binding(), self.search["past_present_share_buffer"]
        given = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions}
        for name, array in given.items():
            if name in self.types:
                binding.bind_cpu_input(name, np.ascontiguousarray(array))
        binding.bind_output("logits")
        for name, value in caches.items():
            binding.bind_ortvalue_input(name, value)
            present = name.replace("past_key_values", "present")
            if shared:
                binding.bind_ortvalue_output(present, value)
            else:
                binding.bind_output(present)
        self.session.run_with_iobinding(binding)
        logits, *after = binding.get_outputs()
        return logits.numpy().astype(np.float32), dict(zip(caches, after, strict=True))
