from __future__ import annotations

import pytest
from jax2onnx_cli._inputs import InputSpec, read_inputs, read_spec
from jax2onnx_cli._terminal import BadInput


@pytest.mark.parametrize(
    ("text", "name", "dims", "dtype"),
    [
        ("x: f32[B, 28, 28, 1]", "x", ("B", 28, 28, 1), "float32"),
        ("f32[B,28]", None, ("B", 28), "float32"),
        ("  x :  bf16 [ 2*T + 1 ,4]  ", "x", ("2*T + 1", 4), "bfloat16"),
        ("training: bool[]", "training", (), "bool"),
        ("[B, 4]", None, ("B", 4), None),
        ("x: [4]", "x", (4,), None),
        ("x: int32[?, None]", "x", (None, None), "int32"),
        ("x: f32[floordiv(H, 2), max(S, 1)]", "x", ("floordiv(H, 2)", "max(S, 1)"), "float32"),
        ("batch.speed: u8[3]", "batch.speed", (3,), "uint8"),
        ("c64[2]", None, (2,), "complex64"),
        ("float8_e4m3fn[2]", None, (2,), "float8_e4m3fn"),
    ],
)
def test_a_specification_is_read(text, name, dims, dtype):
    assert read_spec(text) == InputSpec(name, dims, dtype)


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("x: f33[3]", 4, "'f33' is no type"),
        ("x: object[3]", 4, "'object' is no type"),
        ("x: str[3]", 4, "'str' is no type"),
        ("x: f32", 7, "the dimensions are missing"),
        ("x", 2, "the dimensions are missing"),
        ("", 1, "the dimensions are missing"),
        ("x: f32[3", 9, "the closing ']' is missing"),
        ("x: f32[B,,1]", 10, "a dimension is missing"),
        ("x: f32[B,]", 10, "a dimension is missing"),
        ("x: f32[B, -]", 0, ""),
        ("x: f32[B, 2.5]", 11, "'2.5' is no dimension"),
        ("x: f32[floordiv(H, 2]", 8, "'floordiv(H, 2' is no dimension"),
        ("x: f32[3] y", 11, "the text should end"),
        ("x: y: f32[3]", 5, "a second ':'"),
        ("1x: f32[3]", 1, "'1x' is not a name"),
        ("x y: f32[3]", 1, "'x y' is not a name"),
    ],
)
def test_an_error_points_at_the_place(text, place, why):
    if not why:
        read_spec(text)  # is refused by the engine, which knows what an expression is
        return
    with pytest.raises(BadInput, match="character") as error:
        read_spec(text)
    assert f"at character {place}: {why}" in error.value.message


def specs(*texts: str) -> list[InputSpec]:
    return [read_spec(text) for text in texts]


def test_arguments_keep_their_order():
    inputs = read_inputs(specs("b: f32[3]", "a: [4]"))
    assert (inputs.positional, inputs.heads, inputs.names) == ([((3,), "float32"), (4,)], ["b", "a"], ["b", "a"])


def test_names_with_dots_are_parts_of_one_argument():
    inputs = read_inputs(specs("batch.speed: [1]", "gain: [2]", "batch.limits.high: [3]"), specs("flags.a: [4]"))
    assert inputs.positional == [{"speed": (1,), "limits": {"high": (3,)}}, (2,)]
    assert inputs.keywords == {"flags": {"a": (4,)}}
    assert inputs.names == ["batch.limits.high", "batch.speed", "gain", "flags.a"]


def test_numbers_in_names_are_elements_of_a_list():
    assert read_inputs(specs("xs.1: [1]", "xs.0: [2]")).positional == [[(2,), (1,)]]


def test_without_all_names_there_are_none():
    inputs = read_inputs(specs("x: [1]", "[2]"))
    assert (inputs.names, inputs.heads) == (None, ["x", None])


@pytest.mark.parametrize(
    ("positional", "keywords", "why"),
    [
        (("x: [1]", "x: [2]"), (), "two inputs called 'x'"),
        (("x: [1]",), ("x: [2]",), "two inputs called 'x'"),
        (("x: [1]", "x.a: [2]"), (), "'x' is an array, and x.a a part of it"),
        (("xs.0: [1]", "xs.2: [2]"), (), "numbered 0, 1, 2"),
        ((), ("bool[]",), "needs its name"),
    ],
)
def test_contradictions_are_refused(positional, keywords, why):
    with pytest.raises(BadInput, match=why):
        read_inputs(specs(*positional), specs(*keywords))
