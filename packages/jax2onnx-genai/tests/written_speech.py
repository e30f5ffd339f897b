"""Encoders and decoders of speech as users write them, and a stand-in for onnxruntime-genai that feeds a written folder as it does."""

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
from jax2onnx_runtime.bundles.bundle import Bundle

WORDS, WIDTH, MELS, LAYERS, HEADS, FEATURES, FRAMES, PLACES = 40, 16, 6, 2, 2, 8, 3000, 64
PAD, BEGIN, END = 0, 1, 39


def _weights() -> Any:
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape, dtype=np.float32) * 2 / np.sqrt(shape[0], dtype=np.float32))

    names = ("query", "key", "value", "out", "cross_query", "cross_key", "cross_value", "cross_out")
    layers = [{name: drawn(WIDTH, WIDTH) for name in names} for _ in range(LAYERS)]
    return layers, drawn(MELS, WIDTH), drawn(WORDS, WIDTH) * 3, drawn(PLACES, WIDTH), drawn(WIDTH, WORDS)


WEIGHTS = _weights()


def _heads(x: jax.Array) -> jax.Array:
    return x.reshape(*x.shape[:2], HEADS, FEATURES)


def _attended(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    return jax.nn.dot_product_attention(_heads(query), key, value, mask=mask).reshape(query.shape)


def encoded(sound: jax.Array) -> jax.Array:
    """Hidden states [B, 1500, D] of features [B, 3000, M]; those of the first sounds differ, as in speech."""
    x = jnp.tanh(sound @ WEIGHTS[1])
    return x.reshape(x.shape[0], -1, 2, WIDTH).sum(2)


def crossed(memory: jax.Array) -> list[dict[str, jax.Array]]:
    """The keys and values [B, 1500, N, H] of each layer."""
    return [{name: _heads(memory @ layer[f"cross_{name}"]) for name in ("key", "value")} for layer in WEIGHTS[0]]


def decoded(
    tokens: jax.Array, positions: jax.Array, cross: Any, caches: Any, mask: jax.Array, extend: Callable[..., jax.Array]
) -> tuple[jax.Array, list[dict[str, jax.Array]]]:
    """Logits [B, T, V], and the caches that `extend` makes of the old ones and the new keys or values [B, T, N, H]."""
    layers, _, table, places, head = WEIGHTS
    x, kept = table[tokens] + places[positions], []
    for layer, memory, cache in zip(layers, cross, caches, strict=True):
        new = {name: extend(cache[name], _heads(x @ layer[name])) for name in ("key", "value")}
        kept.append(new)
        x = x + _attended(x @ layer["query"], new["key"], new["value"], mask) @ layer["out"]
        x = x + _attended(x @ layer["cross_query"], memory["key"], memory["value"]) @ layer["cross_out"]
    return x @ head, kept


def reference(sound: np.ndarray, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The greedy continuations of prompts of one length in JAX, on the whole text for each token."""
    cross = crossed(encoded(jnp.asarray(sound)))

    @jax.jit
    def following(tokens: jax.Array, length: jax.Array) -> jax.Array:
        places = jnp.arange(tokens.shape[1])
        mask = (places <= places[:, None])[None, None]
        empty = [{"key": None, "value": None}] * LAYERS
        logits, _ = decoded(tokens, places[None], cross, empty, mask, lambda _, new: new)
        return logits[:, length - 1].argmax(-1)

    start = len(prompts[0])
    text = np.full((len(prompts), start + count), PAD, np.int32)
    text[:, :start] = prompts
    for length in range(start, start + count):
        text[:, length] = following(text, length)
    return text[:, start:].tolist()


# -- writings -----------------------------------------------------------------------------------------

HIDDEN = {"encode.memory": "decode.memory"}
CROSS = {f"encode.cross.{i}.{kind}": f"decode.cross.{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")}


@functools.cache
def hidden_grown() -> Bundle:
    """Hidden states [B, 1500, D] of features [B, 3000, M]; caches [B, S, N, H] that grow, positions [B, T] and a mask."""

    def decode(tokens, positions, mask, memory, cache):
        logits, new = decoded(
            tokens, positions, crossed(memory), cache, mask, lambda old, x: jnp.concatenate([old, x], 1)
        )
        return {"logits": logits, "cache": new}

    encoder = to_onnx(lambda sound: {"memory": encoded(sound)}, [("B", FRAMES, MELS)])
    kept, tokens = ("B", "S", HEADS, FEATURES), (("B", "T"), "int32")
    inputs = [tokens, tokens, (("B", 1, "T", "S + T"), "bool"), ("B", FRAMES // 2, WIDTH)]
    caches = [{"key": kept, "value": kept}] * LAYERS
    decoder = to_onnx(decode, [*inputs, caches], constraints=["S >= 0"], states={"cache": "cache"})
    return Bundle({"encode": encoder, "decode": decoder}, links=HIDDEN)


@functools.cache
def cross_written() -> Bundle:
    """Keys and values [B, 1500, N, H] of features [B, M, 2*F], and `cross_decoder`."""

    def encode(features):
        return {"cross": crossed(encoded(features.swapaxes(1, 2)))}

    return Bundle({"encode": to_onnx(encode, [("B", MELS, "2*F")]), "decode": cross_decoder()}, links=CROSS)


@functools.cache
def cross_decoder() -> Any:
    """A decoder with keys and values of an encoder, and caches [B, C, N, H] that are written at a place, which is a state."""

    def decode(tokens, cross, state):
        place = state["place"]
        positions = place + jnp.arange(tokens.shape[1])
        mask = (jnp.arange(state["layers"][0]["key"].shape[1]) <= positions[:, None])[None, None]

        def extend(old, x):
            return jax.lax.dynamic_update_slice(old, x, (0, place, 0, 0))

        logits, new = decoded(tokens, positions[None], cross, state["layers"], mask, extend)
        return {"logits": logits, "state": {"layers": new, "place": place + tokens.shape[1]}}

    kept, memory = ("B", "C", HEADS, FEATURES), ("B", "F", HEADS, FEATURES)
    state = {"layers": [{"key": kept, "value": kept}] * LAYERS, "place": ((), "int32")}
    inputs = [(("B", "T"), "int32"), [{"key": memory, "value": memory}] * LAYERS, state]
    return to_onnx(decode, inputs, constraints=["C >= T"], states={"state": "state"})


# -- the stand-in for onnxruntime-genai -----------------------------------------------------------------


@dataclasses.dataclass
class SpeechStandIn:
    """Feeds the models in a folder as onnxruntime-genai does: features, tokens, caches, and the number of tokens until now."""

    folder: Path

    def __post_init__(self) -> None:
        self.content = json.loads((self.folder / "genai_config.json").read_text())
        files = [self.content["model"][name]["filename"] for name in ("encoder", "decoder")]
        self.encoder, self.decoder = (ort.InferenceSession(self.folder / file) for file in files)

    def texts(self, sound: np.ndarray, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
        """The greedy continuations of prompts of one length; the sound is [B, M, 3000]."""
        model, shared = self.content["model"], self.content["search"]["past_present_share_buffer"]
        encoder, decoder = model["encoder"], model["decoder"]
        types = {value.name: value.type for value in self.decoder.get_inputs()}
        half = types[decoder["inputs"]["past_key_names"] % 0] == "tensor(float16)"
        dtype = np.float16 if half else np.float32
        handed = {}
        if "cross_past_key_names" in decoder["inputs"]:
            for i in range(encoder["num_hidden_layers"]):
                for kind in ("key", "value"):
                    source = encoder["outputs"][f"cross_present_{kind}_names"] % i
                    handed[source] = decoder["inputs"][f"cross_past_{kind}_names"] % i
        else:
            handed[encoder["outputs"]["encoder_hidden_states"]] = decoder["inputs"]["encoder_hidden_states"]
        names = [encoder["outputs"]["encoder_hidden_states"], *handed]
        results = dict(zip(names, self.encoder.run(names, {"audio_features": sound.astype(dtype)}), strict=True))
        hidden = results[encoder["outputs"]["encoder_hidden_states"]]
        assert hidden.shape == (len(sound), FRAMES // 2, encoder["hidden_size"])
        feeds: dict[str, Any] = {name: results[source] for source, name in handed.items()}
        shape = (len(prompts), decoder["num_key_value_heads"], PLACES if shared else 0, decoder["head_size"])
        caches = [
            (f"past_{kind}_names", f"present_{kind}_names", i) for i in range(LAYERS) for kind in ("key", "value")
        ]
        feeds |= {decoder["inputs"][past] % i: np.zeros(shape, dtype) for past, _, i in caches}
        tokens, past, texts = np.array(prompts, np.int32), 0, [list[int]() for _ in prompts]
        outputs = ["logits", *(decoder["outputs"][present] % i for _, present, i in caches)]
        while len(texts[0]) < count:
            feeds["input_ids"] = tokens
            if "past_sequence_length" in types:
                feeds["past_sequence_length"] = np.array([past], np.int32)
            logits, *after = self.decoder.run(outputs, {name: feeds[name] for name in types})
            feeds |= {decoder["inputs"][name] % i: x for (name, _, i), x in zip(caches, after, strict=True)}
            past, tokens = past + tokens.shape[1], logits[:, -1:].argmax(-1).astype(np.int32)
            for text, token in zip(texts, tokens[:, 0], strict=True):
                text.append(int(token))
        return texts
