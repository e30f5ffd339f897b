"""Remainders whose sign is corrected."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.fuse_mod import FuseMod

REMAINDER = """n = Constant<value = int32 {5}>() nought = Constant<value = int32 {0}>() false = Constant<value = bool {0}>()
    r = Mod<fmod = 1>(x, n) l = Less(r, nought) e = Equal(r, nought) d = Not(e) m = Add(r, n)"""
INTEGERS = ("int32[B,8] x", "int32[B,8] y")


@pytest.mark.parametrize(
    "condition",
    ["c = And(l, d)", "c = And(d, l)", "o = Xor(l, false) c = And(o, d)", "o = Xor(false, l) c = And(d, o)"],
)
def test_a_remainder_whose_sign_is_corrected_is_mod(fused, condition):
    assert fused(FuseMod(), f"{REMAINDER} {condition} y = Where(c, m, r)", *INTEGERS) == ["Mod"]


@pytest.mark.parametrize(
    "change",
    [("c = And(l, d)", "c = Or(l, d)"), ("n = Constant<value = int32 {5}>", "n = Constant<value = int32 {-5}>")],
)
def test_something_like_a_remainder_stays(fused, change):
    body = f"{REMAINDER} c = And(l, d) y = Where(c, m, r)"
    assert change[0] in body
    assert "Where" in fused(FuseMod(), body.replace(*change), *INTEGERS)


UNKNOWN_DIVISOR = """nought = Constant<value = int32 {0}>() r = Mod<fmod = 1>(x, n) l = Less(r, nought) k = Less(n, nought)
    o = Xor(l, k) e = Equal(r, nought) d = Not(e) m = Add(r, n) c = And(o, d) y = Where(c, m, r)"""


def test_a_divisor_that_is_not_known_is_declined(declined):
    inputs = "int32[B,8] x, int32 n"
    assert declined(FuseMod(), UNKNOWN_DIVISOR, inputs, INTEGERS[1]) == ["the divisor is not a positive constant"]


@pytest.mark.parametrize(
    "change",
    [
        ("Mod<fmod = 1>(x, n)", "Mul(x, n)"), ("fmod = 1", "fmod = 0"), ("Add(r, n)", "Sub(r, n)"), ("Add(r, n)", "Add(r, x)"),
        ("Xor(l, k)", "Or(l, k)"), ("And(o, d)", "Or(o, d)"), ("Where(c, m, r)", "Where(c, m, x)"),
    ],
)  # fmt: skip
def test_what_is_no_remainder_gives_no_reason(declined, change):
    assert change[0] in UNKNOWN_DIVISOR
    assert declined(FuseMod(), UNKNOWN_DIVISOR.replace(*change), "int32[B,8] x, int32 n", INTEGERS[1]) == []
