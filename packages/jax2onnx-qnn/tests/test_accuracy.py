"""Trained models in integers on the NPU, or on its simulation: as many answers are right as in float32; run by `nox -s qnn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_qnn.runtime import QnnRuntime

if not QnnRuntime().is_installed:
    pytest.skip("the provider of the NPU is installed by nox -s qnn alone", allow_module_level=True)

CLASSES, LEVELS, WIDTH, HEADS, TOKENS, BATCH = 10, 16, 32, 2, 16, 200
DIGITS = np.random.default_rng(0).random((CLASSES, 8, 8, 1)).astype(np.float32)

Params = Mapping[str, jax.Array]


def images(count: int, seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of ten digits, and which they are of."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    return DIGITS[labels] + rng.normal(0, noise, (count, 8, 8, 1)).astype(np.float32), labels


def words(x: np.ndarray) -> np.ndarray:
    """The grey levels of patches of an image, [B, 16]."""
    return np.clip(patches(x).mean(-1) * LEVELS, 0, LEVELS - 1).astype(np.int32)


def patches(x):
    return x.reshape(-1, 4, 2, 4, 2).swapaxes(2, 3).reshape(-1, TOKENS, 4)


def parameters(**shapes: tuple[int, ...]) -> Params:
    rng = np.random.default_rng(1)
    return {
        name: jnp.asarray(rng.normal(0, np.prod(shape[:-1]) ** -0.5, shape), jnp.float32)
        for name, shape in shapes.items()
    }


BLOCK = {"query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH), "out": (WIDTH, WIDTH),
         "up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH), "places": (TOKENS, WIDTH), "head": (WIDTH, LEVELS)}  # fmt: skip


def normed(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def heads(x):
    return x.reshape(*x.shape[:-1], HEADS, WIDTH // HEADS)


def block(p: Params, x, key, value, mask=None):
    """A layer of attention to keys and values [B, S, H, D], and two dense ones."""
    y = jax.nn.dot_product_attention(heads(normed(x) @ p["query"]), key, value, mask=mask)
    x = x + y.reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(normed(x) @ p["up"]) @ p["down"]


def attending(p: Params, x, mask=None):
    y = normed(x)
    return normed(block(p, x, heads(y @ p["key"]), heads(y @ p["value"]), mask))


def cnn(p: Params, x):
    for name, stride in (("first", 1), ("second", 2)):
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, p[name], (stride, stride), "SAME", dimension_numbers=layout))
    return x.reshape(x.shape[0], -1) @ p["head"]


def vit(p: Params, x):
    return attending(p, patches(x) @ p["patch"] + p["places"]).mean(1) @ p["head"]


def encoder(p: Params, tokens):
    return attending(p, p["embedding"][tokens] + p["places"]).mean(1) @ p["head"]


def decoder(p: Params, tokens):
    mask = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))[None, None]
    return attending(p, p["embedding"][tokens] + p["places"], mask) @ p["head"]


def step(p: Params, token, place, keys, values):
    """The decoder for one token of each row, with its caches [B, 16, H, D], of which it writes one place."""
    x = (p["embedding"][token] + p["places"][place])[:, None]
    here = (jnp.arange(TOKENS) == place)[None, :, None, None]
    keys, values = (
        jnp.where(here, heads(normed(x) @ p[name]), old) for name, old in (("key", keys), ("value", values))
    )
    seen = (jnp.arange(TOKENS) <= place)[None, None, None]
    return (normed(block(p, x, keys, values, seen)) @ p["head"])[:, 0], keys, values


def trained(model: Callable[..., jax.Array], p: Params, x: np.ndarray, labels: np.ndarray) -> Params:
    optimiser = optax.adam(3e-3)

    @jax.jit
    def update(p, state, x, labels):
        loss = lambda p: optax.softmax_cross_entropy_with_integer_labels(model(p, x), labels).mean()  # noqa: E731
        updates, state = optimiser.update(jax.grad(loss)(p), state)
        return optax.apply_updates(p, updates), state

    state = optimiser.init(p)
    for i in range(300):
        rows = np.arange(i * 100, i * 100 + 100) % len(x)
        p, state = update(p, state, x[rows], labels[rows])
    return p


Model = tuple[Callable[..., jax.Array], float, Callable[[np.ndarray], np.ndarray], Mapping[str, tuple[int, ...]]]

#: The model, the noise of its images, what makes its inputs of them, and the shapes of its parameters.
MODELS: Mapping[str, Model] = {
    "CNN": (cnn, 0.45, lambda x: x, {"first": (3, 3, 1, 8), "second": (3, 3, 8, 16), "head": (256, CLASSES)}),
    "ViT": (vit, 0.45, lambda x: x, {**BLOCK, "patch": (4, WIDTH)}),
    "encoder": (encoder, 0.25, words, {**BLOCK, "embedding": (LEVELS, WIDTH)}),
}


@pytest.mark.parametrize(
    ("name", "tolerance", "widest"), [*((name, 0.1, "uint8") for name in MODELS), ("CNN", 0.01, "uint16")]
)
def test_a_classifier_is_as_right_as_in_float32(name, tolerance, widest):
    model, noise, prepared, shapes = MODELS[name]
    (x, labels), (tried, wanted) = images(3000, 1, noise), images(5 * BATCH, 2, noise)
    p = trained(model, parameters(**shapes), prepared(x), labels)
    batches = [(batch,) for batch in np.split(prepared(tried), 5)]
    calibration = [(batch,) for batch in np.split(prepared(x), 15)[:4]]
    program = to_onnx(partial(model, p), list(batches[0]), target="qnn")
    quantised = program.quantize("static_int8", calibration=calibration, tolerance=tolerance)
    zeros = [node.inputs[2] for node in all_nodes(quantised.model) if node.op_type == "QuantizeLinear"]
    assert max((zero.dtype.numpy() for zero in zeros), key=lambda dtype: dtype.itemsize) == widest
    right = [
        np.mean(np.concatenate([fn(*b) for b in batches]).argmax(-1) == wanted) for fn in (partial(model, p), quantised)
    ]
    assert right[0] > 0.9
    assert right[1] >= right[0] - 0.01


def test_a_decoder_with_static_caches_is_as_right_as_in_float32():
    tokens, tried = (words(images(count, seed, 0.03)[0]) for seed, count in ((1, 3000), (2, BATCH)))
    p = trained(decoder, parameters(**BLOCK, embedding=(LEVELS, WIDTH)), tokens, np.roll(tokens, -1, 1))
    caches = np.zeros((BATCH, TOKENS, HEADS, WIDTH // HEADS), np.float32)

    def calls(tokens, run):
        keys = values = caches
        for place in range(TOKENS - 1):
            arguments = (tokens[:, place], np.int32(place), keys, values)
            logits, keys, values = map(np.asarray, run(*arguments))
            yield arguments, logits.argmax(-1)

    floats = partial(step, p)
    calibration = [arguments for arguments, _ in calls(tokens[:BATCH], floats)]
    program = to_onnx(floats, list(calibration[0]), target="qnn")
    quantised = program.quantize("static_int8", calibration=calibration, tolerance=0.1)
    assert any(node.op_type == "QuantizeLinear" for node in all_nodes(quantised.model))
    right = [np.mean(np.array([found for _, found in calls(tried, run)]) == tried.T[1:]) for run in (floats, quantised)]
    assert right[0] > 0.4
    assert right[1] >= right[0] - 0.01
