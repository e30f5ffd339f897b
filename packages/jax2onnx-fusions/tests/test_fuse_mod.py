"""Remainders whose sign is corrected."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.fuse_mod import FuseMod

CONSTANTS = "int64 n = {7}, int64 m = {6}, int64 zero = {0}, int64 negative = {-7}, bool no = {0}, bool yes = {1}"
REMAINDER = "r = Mod<fmod = 1>(x, n) moved = Add(r, n) below = Less(r, zero) same = Equal(r, zero) other = Not(same)"


def is_formed(fused, body: str, dtype: str = "int64", constants: str = CONSTANTS) -> bool:
    inputs = f"{dtype}[B,8] x, {dtype}[B,8] z, bool[B,8] c"
    return fused(FuseMod(), body, inputs, f"{dtype}[B,8] y", values=constants.replace("int64", dtype)) == ["Mod"]


@pytest.mark.parametrize(
    "condition",
    [
        "both = And(below, other)", "both = And(other, below)", "differs = Xor(below, no) both = And(differs, other)",
        "differs = Xor(no, below) both = And(other, differs)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("total", ["Add(r, n)", "Add(n, r)"])
def test_a_remainder_whose_sign_is_corrected_is_mod(fused, condition, dtype, total):
    assert is_formed(fused, f"{REMAINDER.replace('Add(r, n)', total)} {condition} y = Where(both, moved, r)", dtype)


CORRECTED = f"{REMAINDER} both = And(below, other) y = Where(both, moved, r)"
LOOK_ALIKES = {
    "a floored remainder": ("Mod<fmod = 1>", "Mod"),
    "another number is added": ("Add(r, n)", "Add(r, m)"),
    "another value is moved": ("Add(r, n)", "Add(z, n)"),
    "a difference": ("Add(r, n)", "Sub(r, n)"),
    "a negative divisor": (", n)", ", negative)"),
    "a divisor of 0": (", n)", ", zero)"),
    "a divisor that is not known": (", n)", ", z)"),
    "the branches are exchanged": ("Where(both, moved, r)", "Where(both, r, moved)"),
    "either is enough": ("And(below, other)", "Or(below, other)"),
    "one condition alone": ("And(below, other)", "And(below, below)"),
    "the other condition alone": ("And(below, other)", "And(other, other)"),
    "any condition": ("Where(both", "Where(c"),
    "above 0": ("Less(r, zero)", "Less(zero, r)"),
    "below another number": ("Less(r, zero)", "Less(r, n)"),
    "another value below 0": ("Less(r, zero)", "Less(z, zero)"),
    "equal to another number": ("Equal(r, zero)", "Equal(r, n)"),
    "another value equal to 0": ("Equal(r, zero)", "Equal(z, zero)"),
    "equal to 0": ("other = Not(same)", "other = Identity(same)"),
    "the sign is that of a negative number": ("And(below, other)", "And(differs, other)"),
    "the sign is any": ("And(below, other)", "And(either, other)"),
    "another value is the remainder": ("Where(both, moved, r)", "Where(both, moved, z)"),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_is_no_corrected_remainder(fused, name):
    before, after = LOOK_ALIKES[name]
    body = CORRECTED.replace("both =", "differs = Xor(below, yes) either = Xor(below, c) both =")
    assert is_formed(fused, body)
    assert not is_formed(fused, body.replace(before, after))


def test_a_remainder_of_floats_is_none(fused):
    assert not is_formed(fused, CORRECTED, "float")


@pytest.mark.parametrize(("number", "expected"), [(2**53 + 1, True), (2**53, False), (2**53 + 2, False)])
def test_numbers_that_are_no_floats_are_compared_as_they_are(fused, number, expected):
    constants = CONSTANTS.replace("{7}", f"{{{2**53 + 1}}}").replace("{6}", f"{{{number}}}")
    assert is_formed(fused, CORRECTED.replace("Add(r, n)", "Add(r, m)"), constants=constants) is expected


UNKNOWN_DIVISOR = """nought = Constant<value = int32 {0}>() r = Mod<fmod = 1>(x, n) l = Less(r, nought) k = Less(n, nought)
    o = Xor(l, k) e = Equal(r, nought) d = Not(e) m = Add(r, n) c = And(o, d) y = Where(c, m, r)"""


def test_a_divisor_that_is_not_known_is_declined(declined):
    inputs = "int32[B,8] x, int32 n"
    assert declined(FuseMod(), UNKNOWN_DIVISOR, inputs, "int32[B,8] y") == ["the divisor is not a positive constant"]


@pytest.mark.parametrize(
    "change",
    [
        ("Mod<fmod = 1>(x, n)", "Mul(x, n)"), ("fmod = 1", "fmod = 0"), ("Add(r, n)", "Sub(r, n)"), ("Add(r, n)", "Add(r, x)"),
        ("Xor(l, k)", "Or(l, k)"), ("And(o, d)", "Or(o, d)"), ("Where(c, m, r)", "Where(c, m, x)"),
    ],
)  # fmt: skip
def test_what_is_no_remainder_gives_no_reason(declined, change):
    assert change[0] in UNKNOWN_DIVISOR
    assert declined(FuseMod(), UNKNOWN_DIVISOR.replace(*change), "int32[B,8] x, int32 n", "int32[B,8] y") == []
