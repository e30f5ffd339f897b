"""Models of several programs, exported apart and run as bundles, beside the same models in JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_runtime.bundles.bundle import Bundle, load_bundle
from jax2onnx_runtime.bundles.session import BundleSession

WIDTH, HEADS, TOKENS = 64, 4, 50
RNG = np.random.default_rng(0)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


# -- an encoder and a decoder (NNX) -------------------------------------------------------------


class Translator(nnx.Module):
    """An encoder, and a decoder that attends to what it has read and to what it has written."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(TOKENS, WIDTH, rngs=rngs)
        self.reader = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.own = nnx.MultiHeadAttention(HEADS, WIDTH, decode=True, rngs=rngs)
        self.cross = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.own.init_cache((1, 8, WIDTH), dtype=jnp.float32)

    def encode(self, source: jax.Array) -> dict[str, jax.Array]:
        x = self.tokens(source)
        return {"memory": x + self.reader(x)}

    def decode(self, memory: jax.Array, token: jax.Array) -> jax.Array:
        x = self.tokens(token)
        x = x + self.own(x)
        x = x + self.cross(x, memory)
        return self.tokens.attend(x[:, 0])


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(nnx.Rngs(0))


@pytest.fixture(scope="module")
def translation(translator: Translator) -> Bundle:
    encode = to_onnx(translator.encode, [(("B", "S"), "int32")])
    decode = to_onnx(
        translator.decode, [("B", "S", WIDTH), (("B", 1), "int32")], states=nnx.Cache, state_shapes={"cached_*": ("B", "C", ...)}
    )  # fmt: skip
    return Bundle({"encode": encode, "decode": decode}, links={"encode.memory": "decode.memory"}, same_weights=True)


def test_programs_of_one_model_have_its_weights_once(translation: Bundle, translator: Translator) -> None:
    params = sum(x.nbytes for x in jax.tree.leaves(nnx.state(translator, nnx.Param)))
    assert 0.8 * params < translation.nbytes < 1.2 * params


@pytest.mark.parametrize(("batch", "source", "capacity"), [(1, 3, 4), (2, 7, 8), (3, 1, 5)])
def test_a_decoder_reads_what_its_encoder_wrote(
    translation: Bundle, translator: Translator, batch: int, source: int, capacity: int
) -> None:
    session, loop = translation.session(sizes={"B": batch, "C": capacity}, threads=1), nnx.clone(translator)
    loop.own.init_cache((batch, capacity, WIDTH), dtype=jnp.float32)
    text = RNG.integers(0, TOKENS, (batch, source), dtype=np.int32)
    memory = loop.encode(jnp.asarray(text))["memory"]
    close(session.step("encode", text)["memory"], memory)
    for token in RNG.integers(0, TOKENS, (4, batch, 1), dtype=np.int32):
        close(session.step("decode", token), loop.decode(memory, token))


# -- prefill and decode (Linen) -----------------------------------------------------------------


class Decoder(nn.Module):
    """Causal attention over a cache, for a prompt from place 0 on or for one token."""

    @nn.compact
    def __call__(self, tokens: jax.Array, place: jax.Array) -> jax.Array:
        embed = nn.Embed(TOKENS, WIDTH)
        x = embed(tokens)
        keys = self.variable("cache", "keys", lambda: jnp.zeros((1, 16, WIDTH)))
        values = self.variable("cache", "values", lambda: jnp.zeros((1, 16, WIDTH)))
        for cache, name in ((keys, "key"), (values, "value")):
            cache.value = jax.lax.dynamic_update_slice(cache.value, nn.Dense(WIDTH, name=name)(x), (0, place, 0))
        seen = jnp.arange(keys.value.shape[1])[None] <= place + jnp.arange(tokens.shape[1])[:, None]
        read = [y[:, :, None] for y in (nn.Dense(WIDTH, name="query")(x), keys.value, values.value)]
        x = x + jax.nn.dot_product_attention(read[0], read[1], read[2], mask=seen[None, None])[:, :, 0]
        return embed.attend(x[:, -1])


def exported(variables: dict[str, object], tokens: int | str) -> OnnxProgram:
    """The decoder for a number of tokens."""
    inputs, limits = [(("B", tokens), "int32"), ((), "int32")], [] if tokens == 1 else ["C >= T"]
    return to_onnx(
        (Decoder(), variables), inputs, states="cache", state_shapes={"*": ("B", "C", ...)}, constraints=limits
    )


@pytest.mark.parametrize("mode", [None, "int8"])
def test_a_prompt_is_continued(mode: str | None, tmp_path: Path) -> None:
    variables = Decoder().init(jax.random.key(0), jnp.zeros((1, 3), jnp.int32), jnp.int32(0))
    variables = {**variables, "cache": jax.tree.map(jnp.zeros_like, variables["cache"])}  # init has written to it
    bundle = Bundle({"prefill": exported(variables, "T"), "decode": exported(variables, 1)}, same_weights=True)
    if mode is not None:
        bundle = bundle.quantize("int8")
    session = load_bundle(bundle.save(tmp_path / "decoder")).session(sizes={"B": 2, "C": 12}, threads=1)
    tokens = RNG.integers(0, TOKENS, (2, 9), dtype=np.int32)
    loop = {**variables, "cache": jax.tree.map(lambda _: jnp.zeros((2, 12, WIDTH)), variables["cache"])}
    for program, start, end in [("prefill", 0, 6), *(("decode", place, place + 1) for place in range(6, 9))]:
        part = tokens[:, start:end]
        expected, new = Decoder().apply(loop, part, start, mutable=["cache"])
        loop = {**loop, **new}
        found = session.step(program, part, np.int32(start))
        if mode is None:
            close(found, expected)
        else:
            assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


# -- a vision tower and a text model (NNX) ------------------------------------------------------


class Captioner(nnx.Module):
    """Patches of an image become tokens, which a text model reads before its own."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.patches = nnx.Conv(3, WIDTH, (8, 8), strides=8, padding="VALID", rngs=rngs)
        self.tokens = nnx.Embed(TOKENS, WIDTH, rngs=rngs)
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.mix = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)

    def see(self, image: jax.Array) -> dict[str, jax.Array]:
        patches = self.patches(image)
        return {"seen": self.norm(patches.reshape(image.shape[0], -1, WIDTH))}

    def say(self, seen: jax.Array, tokens: jax.Array) -> jax.Array:
        x = jnp.concatenate([seen, self.tokens(tokens)], axis=1)
        return self.tokens.attend(self.norm(x + self.mix(x)))[:, -1]


def test_a_text_model_reads_what_a_vision_tower_saw(tmp_path: Path) -> None:
    model = Captioner(nnx.Rngs(0))
    see = to_onnx(model.see, [("B", 32, 32, 3)])
    say = to_onnx(model.say, [("B", "P", WIDTH), (("B", "T"), "int32")])
    bundle = Bundle({"see": see, "say": say}, links={"see.seen": "say.seen"}, same_weights=True)
    session: BundleSession = load_bundle(bundle.save(tmp_path / "captions")).session(threads=1)
    for batch, length in [(1, 2), (3, 5)]:
        image = RNG.standard_normal((batch, 32, 32, 3)).astype(np.float32)
        tokens = RNG.integers(0, TOKENS, (batch, length), dtype=np.int32)
        session.step("see", image)
        seen = model.see(jnp.asarray(image))["seen"]
        close(session.step("say", tokens), model.say(seen, jnp.asarray(tokens)))
