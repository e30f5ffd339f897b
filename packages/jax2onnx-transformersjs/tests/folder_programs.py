"""Programs and tokenizers of the tests, and what ONNX Runtime makes of a folder."""

from __future__ import annotations

import functools
import json
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
