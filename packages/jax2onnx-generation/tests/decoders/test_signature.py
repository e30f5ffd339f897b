"""Signatures of decoders given as text: what is recognised, what has to be said, what is refused."""

from __future__ import annotations

import re

import onnx_ir as ir
import pytest
from jax2onnx_generation.decoders.declaration import Roles
from jax2onnx_generation.decoders.signature import DecoderSignature, decoder_signature
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import StatePair, write_states


def model_of(inputs: str, outputs: str, *states: StatePair) -> ir.Model:
    """A model of these inputs and outputs, which computes nothing."""
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => ({outputs}) {{ }}')
    write_states(model, states)
    return model


CACHE = StatePair("cache", "new_cache", 1)


def signature(inputs: str, outputs: str = "float[B,T,V] logits", roles: Roles | None = None) -> DecoderSignature:
    return decoder_signature(model_of(inputs, outputs), roles)


def test_usual_names_are_recognised():
    found = signature("int32[B,T] input_ids, int32[B,T] position_ids, bool[B,K] attention_mask")
    assert found == DecoderSignature("input_ids", "logits", "position_ids", "attention_mask")


@pytest.mark.parametrize("name", ["input_ids", "tokens", "token_ids", "ids", "Tokens"])
def test_tokens_are_recognised_by_name(name):
    assert signature(f"int32[B,T] {name}, int32[B,T] segments").tokens == name


def test_the_last_part_of_a_name_counts():
    model = model_of("int32[B,T] x, int32[B,T] y", "float[B,T,V] z")
    model.graph.inputs[1].name = "batch.tokens"
    assert decoder_signature(model).tokens == "batch.tokens"


@pytest.mark.parametrize(
    "declared",
    [
        "int64[B,T] positions",
        "int32[T] cache_position",
        "int32[B] start_pos",
        "int32 position",
        "int64[B,T] segment_pos",
    ],
)
def test_positions_are_recognised_by_name(declared):
    assert signature(f"int32[B,T] x, {declared}").positions == declared.split()[-1]


@pytest.mark.parametrize("declared", ["bool[B,K] mask", "int64[B,K] attention_mask", "float[B,H,T,K] attn_bias"])
def test_masks_are_recognised_by_name(declared):
    assert signature(f"int32[B,T] x, {declared}").mask == declared.split()[-1]


def test_the_only_input_of_integers_is_the_tokens():
    assert signature("int32[B,T] x").tokens == "x"


def test_an_array_rather_than_a_number_is_the_tokens():
    assert signature("int32[B,T] x, int32 n") == DecoderSignature("x", "logits", others=("n",))


def test_the_only_output_of_floats_is_the_logits():
    assert signature("int32[B,T] x", "float[B,V] y, int64[B] best").logits == "y"


def test_states_are_neither_inputs_nor_outputs_of_a_role():
    model = model_of("int32[B,T] x, float[B,S] cache", "float[B,T,V] y, float[B,N] new_cache", CACHE)
    assert decoder_signature(model) == DecoderSignature("x", "y", states=(CACHE,))


def test_roles_are_said():
    roles = {"tokens": "a", "positions": "b", "mask": "m", "logits": "z"}
    found = signature("int32[B,T] b, int32[B,T] a, bool[T,K] m", "float[B,T,D] y, float[B,T,V] z", roles)
    assert found == DecoderSignature("a", "z", "b", "m")


def test_a_role_is_denied():
    assert signature("int32[B,T] x, int32 start", roles={"positions": None}).others == ("start",)


REFUSED = {
    "The model returns no logits: the outputs that are no states are best: int64[B]": (
        "int32[B,T] x", "int64[B] best", None,
    ),
    "The model takes no tokens: no input of integers is left among x: float32[B, T]": ("float[B,T] x", "float[B,V] y", None),
    'Several inputs could be the tokens: a: int32[B, T], b: int32[B, T]. Say it by roles={"tokens": "…"}.': (
        "int32[B,T] a, int32[B,T] b", "float[B,V] y", None,
    ),
    'Several outputs could be the logits: y: float32[B, D], z: float32[B, V]. Say it by roles={"logits": "…"}.': (
        "int32[B,T] a", "float[B,D] y, float[B,V] z", None,
    ),
    "there is no role 'token'": ("int32[B,T] a", "float[B,V] y", {"token": "a"}),
    "tokens = 'b', but the inputs that are no states are a: int32[B, T]": ("int32[B,T] a", "float[B,V] y", {"tokens": "b"}),
    "logits = 'a', but the outputs that are no states are y": ("int32[B,T] a", "float[B,V] y", {"logits": "a"}),
    "mask = 'a', but this input is int32[B]. A mask is": ("int32[B] a, int32[B,T] x", "float[B,V] y", {"mask": "a"}),
    "a decoder has tokens, so that None cannot stand for them": ("int32[B,T] a", "float[B,V] y", {"tokens": None}),
    "'a' cannot have two roles": ("int32[B,T] a", "float[B,V] y", {"tokens": "a", "positions": "a"}),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_decoder_is_refused(message):
    inputs, outputs, roles = REFUSED[message]
    with pytest.raises(OptionError, match=re.escape(message)):
        decoder_signature(model_of(inputs, outputs), roles)


def test_a_mask_of_floats_is_added_where_its_name_or_its_role_says_so():
    assert signature("int32[B,T] x, float[B,H,T,K] attn_bias").mask_adds
    assert signature("int32[B,T] x, float[B,H,T,K] m", roles={"bias": "m"}).mask_adds
    assert not signature("int32[B,T] x, float[B,H,T,K] mask", roles={"mask": "mask"}).mask_adds
    assert not signature("int32[B,T] x, bool[B,K] attn_bias").mask_adds


def test_a_mask_of_floats_of_which_nothing_says_how_it_is_used_is_refused():
    with pytest.raises(OptionError, match=r"may be added .* say roles=\{\"bias\": 'mask'\}"):
        signature("int32[B,T] x, float[B,H,T,K] mask")


def test_a_decoder_has_a_mask_or_a_bias():
    with pytest.raises(OptionError, match="a mask or a bias, not both"):
        signature("int32[B,T] x, float[B,T,K] m, float[B,T,K] n", roles={"mask": "m", "bias": "n"})
