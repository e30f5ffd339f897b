from __future__ import annotations

import pytest


def test_a_right_model(jax2onnx):
    outcome = jax2onnx("bisect", "models.py:dense", "-i", "f32[B, 64]")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("Nothing differs: ")
    assert jax2onnx("bisect", "models.py:dense", "-i", "f32[B, 64]", "--json").data["first"] is None


def test_where_fewer_bits_begin_to_differ(jax2onnx):
    arguments = ("bisect", "models.py:dense", "-i", "f32[B, 64]", "--quantize", "int4", "--sizes", "B=2")
    outcome = jax2onnx(*arguments)
    assert outcome.code == 1
    assert outcome.out.startswith("The first difference, at B = 2: dot_general")
    first = jax2onnx(*arguments, "--json").data["first"]
    assert (first["distribution"], first["shape"], first["is_close"]) == ("jax2onnx-lax", [2, 64], False)
    assert "models.py:" in first["line"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--quantize", "int3"), "no mode 'int3'"),
        (("--sizes", "T=3"), "no input has T"),
        (("--sizes", "B"), "'B': write a symbol"),
    ],
)
def test_options_that_cannot_be_used(refused, arguments, why):
    assert why in refused("bisect", "models.py:dense", "-i", "f32[B, 64]", *arguments)
