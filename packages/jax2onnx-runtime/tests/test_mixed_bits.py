"""The record of the bits that weights got, in the metadata of a model and as text."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.metadata import BITS_KEY
from jax2onnx_runtime.mixed_bits import MixedBits, WeightBits, read_mixed_bits, write_mixed_bits

FOUND = MixedBits(
    0.1,
    0.5,
    0.08,
    2000,
    [WeightBits("head", 8, {4: 0.4, 8: 0.02}, 3000), WeightBits("up", 4, {4: 0.05, 8: 0.001}, 1000)],
)


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text('<ir_version: 9, opset_import: ["" : 20]> g (float[N] x) => (float[N] y) { y = Neg(x) }')


def test_a_model_tells_what_was_written(model: ir.Model) -> None:
    write_mixed_bits(model, FOUND)
    assert read_mixed_bits(ir.from_proto(ir.to_proto(model))) == FOUND


def test_a_model_without_a_choice_tells_none(model: ir.Model) -> None:
    assert read_mixed_bits(model) is None


def test_other_metadata_are_refused(model: ir.Model) -> None:
    model.metadata_props[BITS_KEY] = '{"weights": 3}'
    with pytest.raises(ReadError, match="Quantise the model anew"):
        read_mixed_bits(model)


def test_the_weights_with_more_bits_are_named() -> None:
    assert [weight.name for weight in FOUND.kept] == ["head"]


def test_the_text_says_which_why_and_how_large() -> None:
    assert str(FOUND).splitlines() == [
        "noise 8 % of the worst output (22 dB), tolerance 10 %; with 4 bits everywhere 50 % (6 dB)",
        "weights 4 kB, with 4 bits everywhere 2 kB; more bits for 1 of 2:",
        "  head: 8 bits, 3 kB; alone, 40 % of noise with 4, 2 % of noise with 8",
    ]
