"""Profiles: the least, the usual and the largest shapes of the inputs."""

from __future__ import annotations

import re

import jax.numpy as jnp
import pytest
from jax2onnx_core import errors, to_onnx


@pytest.fixture(scope="module")
def program():
    def fn(batch, cache, mask):
        return jnp.where(mask, 1.0, 0.0).sum() + batch["camera"].sum() + cache.sum()

    inputs = [{"camera": (1, "T", 3), "speed": (1, "T")}, (1, "S", 4), (("9*T", "S + 9*T"), bool)]
    return to_onnx(fn, inputs, constraints=["S >= 0", "T <= 6"])


def test_shapes_of_a_profile(program):
    assert program.shape_profile(T=(1, 1, 6), S=(0, 45, 54)).shapes == {
        "batch.camera": ((1, 1, 3), (1, 1, 3), (1, 6, 3)),
        "batch.speed": ((1, 1), (1, 1), (1, 6)),
        "cache": ((1, 0, 4), (1, 45, 4), (1, 54, 4)),
        "mask": ((9, 9), (9, 54), (54, 108)),
    }


def test_forms_of_a_profile():
    profile = to_onnx(lambda x, y: x.sum() + y, [("B", 3), (2,)]).shape_profile(B=(1, 4, 8))
    assert profile.trtexec() == "--minShapes=x:1x3 --optShapes=x:4x3 --maxShapes=x:8x3"
    assert profile.provider_options() == {
        "trt_profile_min_shapes": "x:1x3", "trt_profile_opt_shapes": "x:4x3", "trt_profile_max_shapes": "x:8x3",
    }  # fmt: skip


def test_one_number_is_all_three(program):
    assert program.shape_profile(T=2, S=5).shapes["mask"] == ((18, 23), (18, 23), (18, 23))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"T": (1, 1, 6)}, "The profile says nothing of S, which input 'cache' has on axis 1 (S)"),
        (
            {"T": (1, 1, 6), "S": 0, "K": 3},
            "sizes for K, but no input has that symbol: batch.camera (1, T, 3), batch.speed (1, T)",
        ),
        (
            {"T": (1, 1, 7), "S": 0},
            "The max shapes of the profile are not possible: The constraint 'T <= 6' does not hold for T = 7",
        ),
        ({"T": (0, 1, 6), "S": 0}, "The min shapes of the profile are not possible: T = 0, but T >= 1"),
        ({"T": (3, 1, 6), "S": 0}, "T=(3, 1, 6): a profile needs (least, usual, largest)"),
        ({"T": (1, 6), "S": 0}, "T=(1, 6): a profile needs (least, usual, largest)"),
    ],
)
def test_bad_profiles(program, sizes, message):
    with pytest.raises(errors.SymbolError) as raised:
        program.shape_profile(**sizes)
    assert message in str(raised.value)


def test_a_static_axis_contradicts_a_profile(program):
    full = program.specialize(T=6)
    message = (
        "Input 'batch.camera' is static on axis 1, where T was fixed by T = 6: the profile cannot have 1 to 6 there"
    )
    with pytest.raises(errors.SymbolError, match=re.escape(message)):
        full.shape_profile(T=(1, 1, 6), S=(0, 45, 54))
    assert full.shape_profile(T=6, S=(0, 45, 54)).shapes == {
        "cache": ((1, 0, 4), (1, 45, 4), (1, 54, 4)),
        "mask": ((54, 54), (54, 99), (54, 108)),
    }


def test_sizes_below_zero():
    program = to_onnx(lambda x, y: x.sum() + y.sum(), [("N",), ("max(N - 4, 0)",)])
    assert program.shape_profile(N=(1, 4, 8)).shapes["y"] == ((0,), (0,), (4,))
