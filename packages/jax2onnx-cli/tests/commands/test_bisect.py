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


# -- files ----------------------------------------------------------------------------------


@pytest.fixture
def dense(jax2onnx):
    assert jax2onnx("export", "models.py:dense", "-i", "f32[B, 64]", "-q").code == 0
    return "dense.onnx"


def test_a_file_beside_the_one_that_it_was_quantised_from(jax2onnx, dense):
    jax2onnx("export", "models.py:dense", "-i", "f32[B, 64]", "--quantize", "int4", "-o", "int4.onnx", "-q")
    outcome = jax2onnx("bisect", "int4.onnx", "--against", dense, "--sizes", "B=2")
    assert outcome.code == 1
    assert outcome.out.startswith("The first difference, at B = 2: MatMul")
    assert "by MatMulNBits" in outcome.out
    assert jax2onnx("bisect", dense, "--against", dense).code == 0


def test_a_file_in_two_runtimes(jax2onnx, dense):
    outcome = jax2onnx("bisect", dense, "--against", "onnx", "--sizes", "B=1,5", "--json")
    assert outcome.code == 0
    assert outcome.data["at"] == "B = 5"
    assert [value["operator"] for value in outcome.data["values"]] == ["MatMul", "Tanh"]


def test_a_file_beside_the_object_that_it_was_exported_from(jax2onnx, dense, directory):
    assert jax2onnx("bisect", dense, "--against", "models.py:dense").code == 0
    changed = (
        (directory / "models.py").read_text().replace("jnp.linspace(-1, 1, 64 * 64)", "jnp.linspace(-1, 2, 64 * 64)")
    )
    (directory / "later.py").write_text(changed)
    outcome = jax2onnx("bisect", dense, "--against", "later.py:dense")
    assert outcome.code == 1
    assert "later.py:" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "say what it is compared with, --against OTHER.onnx"),
        (("--against", "onyx"), "--target onyx is not installed"),
        (("--against", "onnxruntime"), "runs in ONNX Runtime already"),
        (("--against", "nowhere.onnx"), "Cannot read nowhere.onnx"),
        (("--against", "dense.onnx", "--quantize", "int8"), "--quantize is for an object"),
        (("--against", "dense.onnx", "-i", "f32[B, 64]"), "the options of an export are for an object, as inputs is"),
        (("--against", "onnx", "--specialize", "B=5"), "the options of an export are for an object, as specialize is"),
        (("--against", "onnx", "--x64"), "as x64 is"),
        (("--against", "dense.onnx", "--sizes", "T=1"), "there is no symbol 'T'"),
    ],
)
def test_what_a_file_cannot_be_compared_with(refused, dense, arguments, why):
    assert why in refused("bisect", dense, *arguments)


def test_what_has_another_shape_differs_without_end(jax2onnx, dense):
    jax2onnx("export", "models.py:turned", "-i", "f32[B, 64]", "-q")
    outcome = jax2onnx("bisect", dense, "--against", "turned.onnx", "--sizes", "B=2", "--json")
    assert "Infinity" not in outcome.out
    assert outcome.data["values"][-1]["largest"] == "inf"


def test_an_object_is_compared_with_jax_only(refused):
    assert "--against is for a model file" in refused("bisect", "models.py:dense", "--against", "onnx")


def test_files_with_other_inputs(refused, jax2onnx, dense):
    jax2onnx("export", "models.py:pick", "-i", "f32[N, 3]", "-i", "i32[]", "-q")
    assert "only the one to compare with has the input 'table'" in refused("bisect", dense, "--against", "pick.onnx")
