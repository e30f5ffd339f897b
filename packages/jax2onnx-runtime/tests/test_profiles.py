"""Profiles of shapes: three shapes for each input with a symbolic dimension, and what cannot be one."""

import re

import pytest
from jax2onnx_graph.errors import SymbolError
from jax2onnx_graph.metadata import SymbolInfo
from jax2onnx_runtime.profiles import shape_profile

SYMBOLS = {
    "B": SymbolInfo("B", 1, None, (("x", 0, "B"),)),
    "T": SymbolInfo("T", 1, None, (("y", 1, "2*T - 4"),)),
    "F": SymbolInfo("F", 1, 3, (("x", 1, "F"),)),
}


@pytest.fixture
def profile(space_of):
    space = space_of(["B", 3], ["B", "2*T - 4"], [5], names=("B", "T"))
    return lambda **sizes: shape_profile(space, ["x", "y", "z"], SYMBOLS, sizes)


def test_each_input_with_a_symbol_has_three_shapes(profile):
    assert profile(B=(1, 2, 8), T=(2, 3, 6)).shapes == {
        "x": ((1, 3), (2, 3), (8, 3)),
        "y": ((1, 0), (2, 2), (8, 8)),
    }


def test_one_number_is_the_least_the_usual_and_the_largest(profile):
    assert profile(B=4, T=2).shapes["x"] == ((4, 3), (4, 3), (4, 3))


@pytest.mark.parametrize(
    ("dim", "sizes", "extent"),
    [
        ("T % 4", (4, 5, 8), (0, 1, 3)),
        ("T*T - 6*T + 10", (1, 3, 5), (1, 1, 5)),
        ("T % 4", (5, 6, 6), (1, 2, 2)),
        ("T*T", (1, 3, 20_000), (1, 9, 400_000_000)),
    ],
)
def test_an_expression_may_be_least_or_largest_between_the_ends(space_of, dim, sizes, extent):
    space = space_of(["T"], [dim], names=("T",))
    symbols = {"T": SymbolInfo("T", 1, None, (("x", 0, "T"),))}
    found = shape_profile(space, ["x", "y"], symbols, {"T": sizes})
    assert found.shapes["y"] == tuple((size,) for size in extent)


def test_fixed_shapes_need_no_profile(space_of):
    found = shape_profile(space_of([5], names=()), ["x"], {}, {})
    assert (found.shapes, found.trtexec(), found.provider_options()) == ({}, "", {})


def test_as_flags_of_trtexec(profile):
    assert profile(B=(1, 2, 8), T=4).trtexec() == (
        "--minShapes=x:1x3,y:1x4 --optShapes=x:2x3,y:2x4 --maxShapes=x:8x3,y:8x4"
    )


def test_as_options_of_an_execution_provider(profile):
    assert profile(B=(1, 2, 8), T=4).provider_options() == {
        "trt_profile_min_shapes": "x:1x3,y:1x4",
        "trt_profile_opt_shapes": "x:2x3,y:2x4",
        "trt_profile_max_shapes": "x:8x3,y:8x4",
    }


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"B": 1}, "The profile says nothing of T, which input 'y' has on axis 1 (2*T - 4): give T=(least, usual, largest)."),
        ({"B": (3, 2, 1), "T": 2}, "B=(3, 2, 1): a profile needs (least, usual, largest), three whole numbers in this order."),
        ({"B": (1, 2), "T": 2}, "B=(1, 2): a profile needs"),
        ({"B": True, "T": 2}, "B=True: a profile needs"),
        ({"N": 1}, "The profile gives sizes for N, but no input has that symbol: x (B, 3), y (B, 2*T - 4), z (5)."),
        ({"B": 1, "T": 2, "F": 4}, "Input 'x' is static on axis 1, where F was fixed by F = 3: the profile cannot have 4 to 4"),
        ({"B": (0, 1, 2), "T": 2}, "The min shapes of the profile are not possible: B = 0, but B >= 1."),
        ({"B": 1, "T": (1, 2, 3)}, "Input 'y' would have the size -2 on axis 1, 2*T - 4, where T = 1."),
    ],
)  # fmt: skip
def test_what_is_no_profile_is_said(profile, sizes, message):
    with pytest.raises(SymbolError, match=re.escape(message)):
        profile(**sizes)


def test_a_symbol_that_was_fixed_may_have_its_number(profile):
    assert profile(B=1, T=2, F=3).shapes["x"] == ((1, 3), (1, 3), (1, 3))
