"""Folders in the form of Hugging Face's models, for the runtimes that read these, and what JAX computes with the same models."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import optax
from demo import Digits, load, train
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_transformersjs import Images, write
from jax2onnx_transformersjs.dtypes import Dtype
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from examples import library_models
from examples.models import ViT, as_trained

__all__ = ["COUNT", "TOLERANCES", "Example", "build", "compared", "compared_tokens"]

TARGET = "web"  # transformers.js runs a model in browsers, too
DTYPES: Sequence[Dtype] = ("fp32", "fp16", "q8", "q4")
# The largest difference of probabilities and features from those of JAX, as a part of their norm.
TOLERANCES = {"fp32": 1e-5, "fp16": 1e-2, "q8": 0.1, "q4": 0.3}
PROMPT, COUNT, LENGTH = "The value of the", 64, 128
OTHERS = ["A class", "An expression statement is used", PROMPT]  # of several lengths


@dataclasses.dataclass(frozen=True)
class Example:
    """A model in a folder, an input, and what JAX computes of it.

    Attributes:
      title: the model, for the table.
      folder: the name of its folder.
      task: the task.
      given: the input, by task: `pixels`, `width`, `height`; `texts`; `prompt`, `others`, `count`.
      wanted: probabilities by class, features, or the numbers of the tokens of the whole text.
      labels: the classes, in order.
      dtypes: the precisions in the folder.
    """

    title: str
    folder: str
    task: str
    given: Mapping[str, Any]
    wanted: np.ndarray
    labels: Sequence[str] = ()
    dtypes: Sequence[Dtype] = DTYPES


def build(directory: Path, *, steps: int = 400) -> list[Example]:
    """Train and export the models, and write their folders into a directory."""
    tokenizer = trained_tokenizer()
    parameters = trained_decoder(tokenizer, steps)
    return [
        *image_examples(directory), encoder_example(directory, tokenizer),
        *(decoder_example(directory, tokenizer, parameters, capacity) for capacity in (None, LENGTH)),
    ]  # fmt: skip


# -- images ---------------------------------------------------------------------------------------


def image_examples(directory: Path) -> list[Example]:
    """Classifiers of four kinds: channels last and first, three and one."""
    vit = as_trained(ViT(width=96, depth=4, rngs=nnx.Rngs(0)), 0)
    linen = library_models.ResNet()
    variables = linen.init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    digits = Digits(nnx.Rngs(0))
    images, labels, held_out, classes = load()
    train(digits, images, labels, (held_out, classes), epochs=4)
    digits.eval()
    normal = Images(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    digit = np.repeat(np.rint(held_out[0] * 255), 3, axis=-1).astype(np.uint8)
    return [
        image_example(directory, "ViT (NNX)", "vit", vit, ("B", 32, 32, 3), photo, normal),
        image_example(directory, "ResNet (Linen)", "resnet", lambda x: linen.apply(variables, x), ("B", 32, 32, 3), photo, normal),
        image_example(directory, "convolutions (Equinox)", "equinox", equinox_net(), ("B", 3, 24, 20), photo[:24, :20], Images()),
        image_example(directory, "digits (NNX, one channel)", "digits", digits, ("B", 8, 8, 1), digit, Images()),
    ]  # fmt: skip


def equinox_net() -> Callable[[jax.Array], jax.Array]:
    """[B, 3, H, W] → [B, 7], with a softmax at the end."""
    keys = jax.random.split(jax.random.key(3), 3)
    layers = eqx.nn.Sequential([
        eqx.nn.Conv2d(3, 8, 3, stride=2, key=keys[0]), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Conv2d(8, 16, 3, key=keys[1]),
        eqx.nn.Lambda(lambda x: jax.nn.gelu(x).mean((1, 2))), eqx.nn.Linear(16, 7, key=keys[2]), eqx.nn.Lambda(jax.nn.softmax),
    ])  # fmt: skip
    return jax.vmap(layers)


def image_example(
    directory: Path, title: str, folder: str, model: Callable[[jax.Array], jax.Array], shape: Sequence[Any], pixels: np.ndarray,
    images: Images,
) -> Example:  # fmt: skip
    program: OnnxProgram = to_onnx(model, [tuple(shape)], target=TARGET)
    prepared = (pixels * images.rescale - np.asarray(images.mean or 0.0)) / np.asarray(images.std or 1.0)
    prepared = (prepared.transpose(2, 0, 1) if shape[1] == 3 else prepared[..., : shape[-1]])[None]
    found = np.asarray(model(jnp.asarray(prepared, jnp.float32)))[0]
    probabilities = found if np.isclose(found.sum(), 1) else np.asarray(jax.nn.softmax(found))
    labels = [f"class {number}" for number in range(len(probabilities))]
    write(program, directory / folder, "image-classification", labels=labels, images=images, dtypes=DTYPES)
    height, width, _ = pixels.shape
    given = {"pixels": pixels.reshape(-1).tolist(), "width": width, "height": height}
    return Example(title, folder, "image-classification", given, probabilities, labels)


# -- text -----------------------------------------------------------------------------------------


@functools.cache
def corpus() -> str:
    return " ".join(word for name in sorted(topics) for word in topics[name].split())


def trained_tokenizer() -> Tokenizer:
    """Pairs of bytes that are frequent in Python's own reference."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=["<pad>", "</s>"], show_progress=False, initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator([corpus()], trainer)
    return tokenizer


class Encoder(nnx.Module):
    """Tokens, a mask of those that count, and segments, [B, T] each → features [B, T, 64]."""

    def __init__(self, vocabulary: int, rngs: nnx.Rngs) -> None:
        self.tables = nnx.List([nnx.Embed(count, 64, rngs=rngs) for count in (vocabulary, LENGTH, 2)])
        self.norms = nnx.List([nnx.LayerNorm(64, rngs=rngs) for _ in range(5)])
        self.attentions = nnx.List([nnx.MultiHeadAttention(4, 64, decode=False, rngs=rngs) for _ in range(2)])
        self.up = nnx.List([nnx.Linear(64, 256, rngs=rngs) for _ in range(2)])
        self.down = nnx.List([nnx.Linear(256, 64, rngs=rngs) for _ in range(2)])

    def __call__(self, tokens: jax.Array, mask: jax.Array, segments: jax.Array) -> jax.Array:
        words, places, kinds = self.tables
        x = self.norms[4](words(tokens) + places(jnp.arange(tokens.shape[1])) + kinds(segments))
        for number in range(2):
            x = self.norms[2 * number](x + self.attentions[number](x, mask=mask[:, None, None, :]))
            x = self.norms[2 * number + 1](x + self.down[number](nnx.gelu(self.up[number](x))))
        return x


def encoder_example(directory: Path, tokenizer: Tokenizer) -> Example:
    """Features of texts of several lengths."""
    model = as_trained(Encoder(tokenizer.get_vocab_size(), nnx.Rngs(1)), 1)
    ids = (("B", "T"), np.int32)
    program = to_onnx(model, [ids, (("B", "T"), np.bool_), ids], target=TARGET, constraints=[f"T <= {LENGTH}"])
    write(program, directory / "encoder", "feature-extraction", tokenizer=tokenizer, special_tokens={"pad": "<pad>"}, dtypes=DTYPES)  # fmt: skip
    texts = [
        "A generator function is resumed where it yielded.",
        "An expression",
        "The statements of a suite, one by one.",
    ]
    rows = [tokenizer.encode(text).ids for text in texts]
    longest = max(map(len, rows))
    tokens = np.array([row + [0] * (longest - len(row)) for row in rows], np.int32)
    mask = np.array([[True] * len(row) + [False] * (longest - len(row)) for row in rows])
    features = model(jnp.asarray(tokens), jnp.asarray(mask), jnp.zeros_like(tokens))
    return Example(
        "encoder with segments (NNX)", "encoder", "feature-extraction", {"texts": texts}, np.asarray(features)
    )


# -- a decoder ----------------------------------------------------------------------------------------

WIDTH, HEADS, KEY_HEADS, FEATURES, LAYERS, HIDDEN = 128, 4, 2, 32, 3, 256
Parameters = dict[str, jax.Array]


def initial(vocabulary: int) -> Parameters:
    shapes = {"table": (vocabulary, WIDTH)}
    for number in range(LAYERS):
        shapes |= {
            f"{number}.query": (WIDTH, HEADS * FEATURES), f"{number}.key": (WIDTH, KEY_HEADS * FEATURES),
            f"{number}.value": (WIDTH, KEY_HEADS * FEATURES), f"{number}.out": (HEADS * FEATURES, WIDTH),
            f"{number}.gate": (WIDTH, HIDDEN), f"{number}.up": (WIDTH, HIDDEN), f"{number}.down": (HIDDEN, WIDTH),
        }  # fmt: skip
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return {
        name: jax.random.normal(key, shape) / np.sqrt(WIDTH if name == "table" else shape[0])
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def normalised(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def rotated(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary embedding: x [B, T, N, H], positions [B, T]."""
    angles = positions[..., None, None] / 10_000 ** (jnp.arange(0, FEATURES, 2) / FEATURES)
    first, second = jnp.split(x, 2, axis=-1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def decode(
    parameters: Parameters, tokens: jax.Array, positions: jax.Array, mask: jax.Array,
    keep: Callable[[int, str, jax.Array], jax.Array],
) -> jax.Array:  # fmt: skip
    """The logits [B, T, V] of a decoder with rotary embeddings and heads of queries that share those of keys.

    Args:
      parameters: the weights.
      tokens: [B, T].
      positions: [B, T].
      mask: booleans that broadcast to [B, N, T, S].
      keep: from the number of a layer, "key" or "value", and the new ones [B, T, K, H], all that the tokens attend to.
    """
    x = parameters["table"][tokens] * np.sqrt(WIDTH)
    for number in range(LAYERS):
        weight = functools.partial(lambda number, name: parameters[f"{number}.{name}"], number)
        h = normalised(x)
        q, k, v = ((h @ weight(name)).reshape(*tokens.shape, -1, FEATURES) for name in ("query", "key", "value"))
        k, v = keep(number, "key", rotated(k, positions)), keep(number, "value", v)
        y = jax.nn.dot_product_attention(rotated(q, positions), k, v, mask=mask)
        x = x + y.reshape(*tokens.shape, -1) @ weight("out")
        h = normalised(x)
        x = x + (jax.nn.silu(h @ weight("gate")) * (h @ weight("up"))) @ weight("down")
    return normalised(x) @ parameters["table"].T


def whole(parameters: Parameters, tokens: jax.Array) -> jax.Array:
    """The logits of whole texts [B, T]."""
    length = tokens.shape[1]
    mask = jnp.tril(jnp.ones((length, length), bool))[None, None]
    positions = jnp.broadcast_to(jnp.arange(length), tokens.shape)
    return decode(parameters, tokens, positions, mask, lambda number, name, new: new)


def trained_decoder(tokenizer: Tokenizer, steps: int) -> Parameters:
    text = np.array(tokenizer.encode(corpus()).ids, np.int32)
    parameters = initial(tokenizer.get_vocab_size())
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(3e-3, steps)))
    state, rng = optimizer.init(parameters), np.random.default_rng(0)

    def loss_of(parameters: Parameters, windows: jax.Array) -> jax.Array:
        logits = whole(parameters, windows[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:]).mean()

    @jax.jit
    def step(parameters: Parameters, state: Any, windows: jax.Array) -> tuple[Parameters, Any, jax.Array]:
        loss, slopes = jax.value_and_grad(loss_of)(parameters, windows)
        updates, state = optimizer.update(slopes, state)
        return optax.apply_updates(parameters, updates), state, loss

    for _ in range(steps):
        starts = rng.integers(0, len(text) - 65, (16, 1))
        parameters, state, loss = step(parameters, state, text[starts + np.arange(65)])
    print(f"decoder: loss {float(loss):.2f} after {steps} steps")
    return parameters


def decoder_example(directory: Path, tokenizer: Tokenizer, parameters: Parameters, capacity: int | None) -> Example:
    """The decoder with grown caches and a mask, or with caches of a fixed capacity."""
    program = grown_decoder(parameters) if capacity is None else fixed_decoder(parameters, capacity)
    folder = "decoder" if capacity is None else "fixed-decoder"
    special = {"pad": "<pad>", "eos": "</s>"}
    write(
        program, directory / folder, "text-generation", tokenizer=tokenizer, special_tokens=special, dtypes=DTYPES,
        context_length=LENGTH, config={"num_attention_heads": HEADS, "hidden_size": WIDTH},
    )  # fmt: skip
    logits = jax.jit(functools.partial(whole, parameters))
    tokens = list(tokenizer.encode(PROMPT).ids)
    for _ in range(COUNT):
        padded = np.array([tokens + [0] * (LENGTH - len(tokens))])
        tokens.append(int(logits(padded)[0, len(tokens) - 1].argmax()))
    title = "decoder, grown caches" if capacity is None else f"decoder, caches of {capacity} places"
    given = {"prompt": PROMPT, "others": OTHERS if capacity is None else [], "count": COUNT}
    return Example(title, folder, "text-generation", given, np.array(tokens))


def grown_decoder(parameters: Parameters) -> OnnxProgram:
    def step(tokens: jax.Array, positions: jax.Array, mask: jax.Array, caches: Any) -> dict[str, Any]:
        new: list[dict[str, jax.Array]] = [{} for _ in range(LAYERS)]

        def keep(number: int, name: str, array: jax.Array) -> jax.Array:
            new[number][name] = jnp.concatenate([caches[number][name], array], axis=1)
            return new[number][name]

        return {"logits": decode(parameters, tokens, positions, mask, keep), "caches": new}

    kept, ids = ("B", "S", KEY_HEADS, FEATURES), (("B", "T"), np.int32)
    caches = [{"key": kept, "value": kept}] * LAYERS
    inputs = [ids, ids, (("B", 1, "T", "S + T"), np.bool_), caches]
    return to_onnx(step, inputs, constraints=["S >= 0"], states={"caches": "caches"}, target=TARGET)


def fixed_decoder(parameters: Parameters, capacity: int) -> OnnxProgram:
    def step(tokens: jax.Array, position: jax.Array, caches: Any) -> dict[str, Any]:
        new: list[dict[str, jax.Array]] = [{} for _ in range(LAYERS)]
        places = position + jnp.arange(tokens.shape[1])

        def keep(number: int, name: str, array: jax.Array) -> jax.Array:
            new[number][name] = jax.lax.dynamic_update_slice(caches[number][name], array, (0, position, 0, 0))
            return new[number][name]

        mask = (jnp.arange(capacity) <= places[:, None])[None, None]
        return {"logits": decode(parameters, tokens, places[None], mask, keep), "caches": new}

    kept = (1, capacity, KEY_HEADS, FEATURES)
    caches = [{"key": kept, "value": kept}] * LAYERS
    inputs = [((1, "T"), np.int32), ((), np.int32), caches]
    return to_onnx(step, inputs, constraints=[f"T <= {capacity}"], states={"caches": "caches"}, target=TARGET)


# -- comparing --------------------------------------------------------------------------------------


def compared(example: Example, dtype: str, got: np.ndarray) -> str:
    """Largest difference of probabilities or features from JAX's. Raises AssertionError for more than the precision explains."""
    difference = float(np.abs(got - example.wanted).max())
    relative = float(np.linalg.norm(got - example.wanted) / np.linalg.norm(example.wanted))
    assert relative < TOLERANCES[dtype], f"{example.title}, {dtype}: {relative:.1e} of the norm off"
    return f"{difference:.0e}"


def compared_tokens(example: Example, dtype: str, got: np.ndarray, file: Path) -> str:
    """Count the tokens that equal JAX's, or, with weights and activations in integers, those of the same file in Python.

    Raises AssertionError if these are not all.
    """
    start = len(example.wanted) - COUNT
    exact = dtype in ("fp32", "fp16")
    wanted = example.wanted if exact else in_python(file, example.wanted[:start])
    assert len(got) == len(wanted), f"{example.title}, {dtype}: {len(got)} tokens instead of {len(wanted)}"
    differing = np.flatnonzero(got != wanted)
    same = COUNT if differing.size == 0 else int(differing[0]) - start
    assert dtype != "fp32" or same == COUNT, f"{example.title}: the texts part after {same} tokens"
    return f"{same} of {COUNT}" + ("" if exact else " (as in Python)")


def in_python(file: Path, prompt: np.ndarray) -> np.ndarray:
    """The prompt and the most probable tokens after it, by ONNX Runtime in Python."""
    session = onnxruntime.InferenceSession(file)
    inputs, names = session.get_inputs(), [value.name for value in session.get_outputs()]
    sizes = {"batch_size": 1, "past_sequence_length": 0}
    feeds: dict[str, np.ndarray] = {
        v.name: np.zeros([sizes.get(d, d) for d in v.shape], np.float32) for v in inputs if "past" in v.name
    }
    text, step = prompt, prompt
    for _ in range(COUNT):
        count = len(text)
        feeds |= {"input_ids": step[None], "attention_mask": np.ones((1, count), np.int64)}
        feeds |= {"position_ids": np.arange(count - len(step), count)[None]}
        given = {value.name: feeds[value.name] for value in inputs}
        found = dict(zip(names, session.run(None, given), strict=True))
        feeds |= {name.replace("present", "past_key_values"): found[name] for name in names[1:]}
        step = found["logits"][0, -1:].argmax(-1)
        text = np.concatenate([text, step])
    return text
