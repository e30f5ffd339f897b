from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import written_speech
from jax2onnx_core import to_onnx
from jax2onnx_genai import write_speech
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.bundles.bundle import Bundle
from written_speech import BEGIN, END, FRAMES, MELS, PAD, PLACES, WIDTH, SpeechStandIn, reference

PROMPTS = [[BEGIN, 5, 7], [BEGIN, 9, 3]]
write = functools.partial(write_speech, eos=END, bos=BEGIN, pad=PAD, context_length=PLACES)
ALL = ["hidden_grown", "cross_written"]
# Of such numbers that the texts depend on them.
SOUND = (
    np.random.default_rng(0).standard_normal((2, FRAMES, MELS), dtype=np.float32)
    + np.arange(MELS, dtype=np.float32) / 3
)
SOUND[1] *= -1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "folder"


@pytest.mark.parametrize("name", ALL)
def test_texts_are_those_of_jax(name, folder):
    files = write(vars(written_speech)[name](), folder)
    assert [file.name for file in files] == ["decoder.onnx", "encoder.onnx", "genai_config.json"]
    expected = reference(SOUND, PROMPTS, 12)
    assert SpeechStandIn(folder).texts(SOUND.swapaxes(1, 2), PROMPTS, 12) == expected
    assert expected != reference(SOUND[::-1], PROMPTS, 12)


@pytest.mark.parametrize(
    "options", [{"dtype": "float16"}, {"quantize": "int4"}, {"quantize": "int4", "dtype": "float16"}]
)
def test_fewer_bits(options, folder):
    write(written_speech.cross_written(), folder, **options)
    found = SpeechStandIn(folder).texts(SOUND.swapaxes(1, 2), PROMPTS, 4)
    if "quantize" not in options:
        assert found == reference(SOUND, PROMPTS, 4)
    types = {value.name: value.type for value in SpeechStandIn(folder).decoder.get_inputs()}
    assert types["past_key_cross_0"] == ("tensor(float16)" if "dtype" in options else "tensor(float)")
    operators = {node.op_type for node in onnx.load(folder / "decoder.onnx").graph.node}
    assert ("MatMulNBits" in operators) == ("quantize" in options)


@pytest.mark.parametrize("name", ALL)
def test_the_models_are_valid_and_have_the_axes_of_the_runtime(name, folder):
    write(vars(written_speech)[name](), folder)
    for file in ("encoder.onnx", "decoder.onnx"):
        onnx.checker.check_model(folder / file, full_check=True)
    inputs = [value.name for value in onnx.load(folder / "decoder.onnx").graph.input]
    assert "attention_mask" not in inputs
    assert "position_ids" not in inputs
    sizes = [d.dim_value for d in onnx.load(folder / "encoder.onnx").graph.input[0].type.tensor_type.shape.dim]
    assert sizes[1] == MELS


def test_the_configuration(folder):
    write(written_speech.cross_written(), folder)
    content = json.loads((folder / "genai_config.json").read_text())
    assert content["model"]["type"] == "whisper"
    assert content["model"]["encoder"]["hidden_size"] == 1
    assert content["search"]["past_present_share_buffer"]


# -- what cannot be written -------------------------------------------------------------------------


def refused(bundle, folder, match, **options):
    with pytest.raises(OptionError, match=match):
        write(bundle, folder, **options)
    assert not folder.exists()


def changed(encode, inputs, links=written_speech.HIDDEN):
    """A bundle with another encoder."""
    return Bundle({"encode": to_onnx(encode, inputs), "decode": written_speech.hidden_grown()["decode"]}, links=links)


def test_programs_without_links_are_an_error(folder):
    refused(Bundle(written_speech.hidden_grown().programs), folder, "with 0 links")


def test_another_number_of_frames_is_an_error(folder):
    refused(changed(lambda x: {"memory": x[:, :1500]}, [("B", 1600, WIDTH)]), folder, "feeds features alone")


def test_another_number_of_places_is_an_error(folder):
    bundle = Bundle(
        {
            "encode": to_onnx(lambda x: {"memory": x[:, : FRAMES // 3]}, [("B", FRAMES, WIDTH)]),
            "decode": to_onnx(
                lambda tokens, memory, cache: (jnp.eye(8)[tokens] + memory.sum(), cache),
                [(("B", "T"), "int32"), ("B", "M", WIDTH), ("B", "S", 2, 8)],
                states={2: 1},
            ),
        },
        links={"encode.memory": "decode.memory"},
    )
    refused(bundle, folder, r"memory: float32\[B, 1000, 16\] of the encoder has no axis of 1500 places")


# What an encoder makes of its features [B, 3000, 16], and what is said of it: hidden states are [B, 1500, D].
MEMORIES: dict[str, tuple[Callable[..., jax.Array], list[tuple[str | int, ...]]]] = {
    "other places": (lambda x: x[:, ::4], [("B", FRAMES, WIDTH)]),
    "places last": (lambda x: x[:, ::2].swapaxes(1, 2), [("B", FRAMES, WIDTH)]),
    "features as many as frames": (lambda x: x[:, ::2, :1] * jnp.ones(x.shape[1]), [("B", "T", WIDTH)]),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_hidden_states_have_1500_places_and_numbers_of_features(folder, name):
    encode, inputs = MEMORIES[name]
    encoder = to_onnx(lambda x: {"memory": encode(x)}, inputs)
    memory = encoder.model.graph.outputs[0]
    dims = [
        "B",
        *(dim if isinstance(dim, int) else axis for dim, axis in zip(memory.shape.dims[1:], "MD", strict=True)),
    ]

    def decode(tokens, memory, cache):
        return {"logits": jnp.eye(8)[tokens] + memory.sum(), "cache": cache}

    kept = [("B", "S", 2, 8)] * 2
    decoder = to_onnx(decode, [(("B", "T"), "int32"), tuple(dims), kept], states={"cache": "cache"})
    bundle = Bundle({"encode": encoder, "decode": decoder}, links={"encode.memory": "decode.memory"})
    refused(bundle, folder, "has no axis of 1500 places")


def test_an_encoder_of_something_else_is_an_error(folder):
    refused(changed(lambda x, y: {"memory": x[:, ::2] * y}, [("B", FRAMES, WIDTH), ()]), folder, "feeds features alone")


def test_a_decoder_of_one_token_is_an_error(folder):
    one_token = written_speech.cross_decoder().specialize(T=1)
    bundle = {"encode": written_speech.cross_written()["encode"], "decode": one_token}
    refused(Bundle(bundle, links=written_speech.CROSS), folder, "takes one token at a time")


def test_a_decoder_with_other_layers_than_what_is_handed_over_is_an_error(folder):
    def decode(tokens, cross, cache):
        new = jnp.ones((*tokens.shape, 2, 8))
        logits = jnp.eye(8)[tokens] + cross["key"].sum() + cross["value"].sum()
        return {
            "logits": logits,
            "cache": [{name: jnp.concatenate([x, new], 1) for name, x in c.items()} for c in cache],
        }

    memory, kept = ("B", FRAMES // 2, 2, 8), ("B", "S", 2, 8)
    pair = {"key": memory, "value": memory}
    inputs = [(("B", "T"), "int32"), pair, [{"key": kept, "value": kept}] * 2]
    decoder = to_onnx(decode, inputs, states={"cache": "cache"}, constraints=["S >= 0"])
    links = {f"encode.cross.0.{kind}": f"decode.cross.{kind}" for kind in pair}
    bundle = Bundle({"encode": written_speech.cross_written()["encode"], "decode": decoder}, links=links)
    refused(bundle, folder, r"has 2 layers .* hands over 1 pairs")


def test_an_input_that_nothing_feeds_is_an_error(folder):
    bundle = written_speech.cross_written()
    links = dict(list(written_speech.CROSS.items())[:-1])
    refused(Bundle(bundle.programs, links=links), folder, "are no pairs of keys and values")
