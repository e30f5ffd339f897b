"""Programs and tokenizers of the tests, and what ONNX Runtime makes of a folder."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from jax2onnx_core import to_onnx

CLASSES = 5


def classify(images):
    """[B, H, W, C] → [B, 5]"""
    channels = images.shape[-1]
    kernel = jnp.asarray(np.random.default_rng(0).standard_normal((3, 3, channels, 8)).astype(np.float32))
    x = jax.lax.conv_general_dilated(images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    weights = np.random.default_rng(1).standard_normal((8, CLASSES)).astype(np.float32)
    return jax.nn.relu(x).mean((1, 2)) @ weights


def encode(tokens, mask=None, segments=None):
    """[B, T] → [B, T, 8]: the features of a token and the mean of those that count"""
    table = jnp.asarray(np.random.default_rng(0).standard_normal((11, 8)).astype(np.float32))
    x = table[tokens]
    if segments is not None:
        x = x + jnp.asarray(table[:2])[segments]
    weights = jnp.ones(tokens.shape) if mask is None else mask.reshape(tokens.shape).astype(np.float32)
    return jnp.tanh(x + (x * weights[..., None]).sum(1, keepdims=True) / weights.sum(1)[:, None, None])


@functools.cache
def classifier(channels: int = 3, target: str | None = None):
    return to_onnx(classify, [("B", 16, 12, channels)], target=target)


@functools.cache
def encoder():
    inputs = [(("B", "T"), np.int32), (("B", "T"), np.bool_), (("B", "T"), np.int32)]
    return to_onnx(encode, inputs)


def written_tokenizer(file: Path, size: int) -> Path:
    words = ["<pad>", "</s>", *(f"w{number}" for number in range(2, size))]
    vocabulary = {word: number for number, word in enumerate(words)}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<pad>"}
    added = [{"id": 1, "content": "</s>", "special": True}]
    file.write_text(json.dumps({"version": "1.0", "added_tokens": added, "model": model}))
    return file


def run(file: Path, **feeds) -> dict[str, np.ndarray]:
    """The outputs of a model in ONNX Runtime, by name."""
    session = onnxruntime.InferenceSession(file)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def interface(file: Path) -> dict[str, tuple[str, list[object]]]:
    """Input or output of a model → its type and shape."""
    session = onnxruntime.InferenceSession(file)
    return {value.name: (value.type, value.shape) for value in (*session.get_inputs(), *session.get_outputs())}


VOCABULARY, WIDTH, HEADS, FEATURES, LAYERS, PLACES = 11, 16, 2, 8, 2, 32


def weights(name: str, *shape: int) -> jax.Array:
    """Numbers that depend on the name only."""
    return jnp.asarray(
        np.random.default_rng([*name.encode()]).standard_normal(shape).astype(np.float32) / np.sqrt(shape[0])
    )


def decode(tokens, positions, mask, caches, *, axis=2):
    """A step of a decoder with grown caches.

    Args:
      tokens: [B, T].
      positions: [B, T].
      mask: booleans, [B, 1, T, S + T].
      caches: "key" and "value" of each layer, [B, heads, S, features], or with the heads behind S where `axis` is 1.
      axis: the axis of the places.
    """
    x = weights("tokens", VOCABULARY, WIDTH)[tokens] + weights("positions", PLACES, WIDTH)[positions]
    new = []
    for number, cache in enumerate(caches):
        q, k, v = (
            (x @ weights(f"{number}{part}", WIDTH, WIDTH)).reshape(*tokens.shape, HEADS, FEATURES) for part in "qkv"
        )
        whole = {}
        for name, part in (("key", k), ("value", v)):
            whole[name] = jnp.concatenate([cache[name], part.swapaxes(1, 2) if axis == 2 else part], axis=axis)
        k, v = (whole[name].swapaxes(1, 2) if axis == 2 else whole[name] for name in ("key", "value"))
        x = x + jax.nn.dot_product_attention(q, k, v, mask=mask).reshape(x.shape)
        new.append(whole)
    return {"logits": x @ weights("tokens", VOCABULARY, WIDTH).T * 4, "caches": new}


@functools.cache
def decoder(*, axis: int = 2, batch: str | int = "B", masked: bool = True):
    """The program of `decode`; without its mask, all tokens see those before them."""
    shape = (batch, HEADS, "S", FEATURES) if axis == 2 else (batch, "S", HEADS, FEATURES)
    caches = [{"key": shape, "value": shape} for _ in range(LAYERS)]
    ids = ((batch, "T"), np.int32)
    function, mask = functools.partial(decode, axis=axis), [((batch, 1, "T", "S + T"), np.bool_)]
    if not masked:
        function, mask = functools.partial(_decode_without_mask, axis=axis), []
    return to_onnx(function, [ids, ids, *mask, caches], constraints=["S >= 0"], states={"caches": "caches"})


def _decode_without_mask(tokens, positions, caches, *, axis):
    past = caches[0]["key"].shape[axis]
    places = jnp.arange(past + tokens.shape[1])
    seen = places[None] <= jnp.arange(tokens.shape[1])[:, None] + past
    return decode(tokens, positions, seen[None, None], caches, axis=axis)


@jax.jit
def logits_of(tokens: jax.Array) -> jax.Array:
    """The logits of a text [1, PLACES] without caches."""
    empty = jnp.zeros((1, HEADS, 0, FEATURES))
    mask = jnp.tril(jnp.ones((PLACES, PLACES), bool))[None, None]
    return decode(tokens, jnp.arange(PLACES)[None], mask, [{"key": empty, "value": empty}] * LAYERS)["logits"]


def written_by_jax(prompt: list[int], count: int, logits: Callable[[jax.Array], jax.Array] = logits_of) -> list[int]:
    """The prompt and the most probable tokens after it, by a function of a text of PLACES tokens."""
    tokens = list(prompt)
    for _ in range(count):
        padded = np.array([tokens + [0] * (PLACES - len(tokens))])
        tokens.append(int(logits(jnp.asarray(padded))[0, len(tokens) - 1].argmax()))
    return tokens


def written_by_folder(file: Path, prompts: list[list[int]], count: int) -> list[list[int]]:
    """The same by a model in a folder, run as transformers.js does: shorter prompts are padded on their left.

    The caches that the model takes first are empty, or hold zeros where their size is fixed.
    """
    session = onnxruntime.InferenceSession(file)
    longest = max(map(len, prompts))
    mask = np.array([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], np.int64)
    tokens = np.array([[0] * (longest - len(prompt)) + prompt for prompt in prompts], np.int64)
    sizes = {"batch_size": len(prompts)}
    caches = {
        value.name: np.zeros([sizes.get(dim, 0) if isinstance(dim, str) else dim for dim in value.shape], np.float32)
        for value in session.get_inputs() if value.name.startswith("past_key_values.")
    }  # fmt: skip
    names, step, written = [value.name for value in session.get_outputs()], tokens, tokens
    for _ in range(count):
        positions = np.where(mask == 0, 1, mask.cumsum(1) - 1)[:, -step.shape[1] :]
        feeds = {"input_ids": step, "attention_mask": mask, "position_ids": positions, **caches}
        taken = {value.name for value in session.get_inputs()}
        found = dict(zip(names, session.run(None, {k: v for k, v in feeds.items() if k in taken}), strict=True))
        caches = {n.replace("present", "past_key_values"): v for n, v in found.items() if n.startswith("present.")}
        step = found["logits"][:, -1].argmax(-1)[:, None]
        written, mask = np.concatenate([written, step], 1), np.concatenate([mask, np.ones_like(step)], 1)
    return [[*map(int, row[longest - len(prompt) :])] for row, prompt in zip(written, prompts, strict=True)]
