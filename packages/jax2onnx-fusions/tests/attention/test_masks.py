"""The numbers by which the mask of an attention hides keys, for masks and biases that are next to each other."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jax2onnx_fusions.attention.fuse_attention import FuseAttention

X = "float[3,4] x, float[4,5] k, float[5,4] v, bool[3,5] m, bool[3,5] n, float[3,5] c"
NUMBERS = {
    "zero": 0.0,
    "two": 2.0,
    "low": -1e9,
    "far": -1e32,
    "below": -3e38,
    "lowest": -3.4028234663852886e38,
    "inf": -np.inf,
}
CONSTANTS = " ".join(f"{name} = Constant<value = float {{{number}}}>()" for name, number in NUMBERS.items())
#: JAX's own number for masked logits.
MASKED = float(-0.7 * np.finfo(np.float32).max)
NAMES = {str(float(np.float32(number))): name for name, number in NUMBERS.items()} | {str(MASKED): "masked"}


def attention(logits: str) -> str:
    return f"{CONSTANTS} a = MatMul(x, k) {logits} p = Softmax<axis = -1>(l) y = MatMul(p, v)"


TWO_MASKS = "w = Where(m, zero, {}) z = Where(n, zero, {}) u = Add(w, z) l = Add(a, u)"


@pytest.mark.parametrize(
    ("logits", "numbers"),
    [
        # A mask that replaces logits may have any number.
        ("l = Where(m, a, low)", ["masked"]),
        ("l = Where(m, a, far)", ["masked"]),
        ("l = Where(m, a, lowest)", ["masked"]),
        ("l = Where(m, a, inf)", ["inf"]),
        ("e = Where(m, a, low) l = Where(n, e, low)", ["masked", "masked"]),
        ("e = Where(m, a, lowest) l = Where(n, e, lowest)", ["masked", "masked"]),
        ("e = Add(a, c) l = Where(m, e, low)", ["masked"]),
        ("b = Constant<value = float[5] {0, 1, 2, 3, 9999}>() e = Sub(a, b) l = Where(m, e, low)", ["masked"]),
        # Beside others it is what it was, or the limit.
        ("e = Where(m, a, far) l = Where(n, e, inf)", ["far", "inf"]),
        ("e = Where(m, a, lowest) l = Where(n, e, inf)", ["masked", "inf"]),
        ("e = Where(m, a, far) l = Where(n, e, lowest)", ["far", "masked"]),
        ("e = Where(m, a, far) l = Add(e, c)", ["far"]),
        ("w = Where(m, zero, far) e = Add(a, w) l = Where(n, e, far)", ["far", "far"]),
        ("w = Where(m, zero, low) e = Add(a, w) l = Where(n, e, far)", ["low", "far"]),
        # A bias keeps its numbers, but for one that leaves no room for a logit.
        ("w = Where(m, zero, low) l = Add(a, w)", ["low"]),
        ("w = Where(m, zero, inf) l = Add(a, w)", ["inf"]),
        ("w = Where(m, zero, lowest) l = Add(a, w)", ["masked"]),
        ("w = Where(m, lowest, zero) l = Add(a, w)", ["masked"]),
        ("w = Where(m, zero, lowest) u = Add(w, c) l = Add(a, u)", ["masked"]),
        ("w = Where(m, zero, lowest) u = Add(c, w) l = Add(a, u)", ["masked"]),
        ("w = Where(m, zero, lowest) u = Mul(w, c) l = Add(a, u)", ["lowest"]),
        ("w = Where(m, below, lowest) l = Add(a, w)", ["below", "lowest"]),
        (TWO_MASKS.format("lowest", "lowest"), ["masked", "masked"]),
        (TWO_MASKS.format("lowest", "below"), ["lowest", "below"]),
        (TWO_MASKS.format("below", "lowest"), ["below", "lowest"]),
        (TWO_MASKS.format("lowest", "low"), ["masked", "low"]),
    ],
)
def test_numbers_that_hide_keys(rewrite, logits, numbers):
    text = f'<ir_version: 10, opset_import: ["" : 23]> main ({X}) => (float[3,4] y) {{ {attention(logits)} }}'
    (result,) = rewrite(FuseAttention(), text, tolerance=2e-5)
    assert "Attention" in result
    found = re.findall(r"-inf|-\d[\d.]*(?:e\+\d+)?", result.partition("Attention")[2])
    assert [NAMES[str(float(number))] for number in found] == numbers


#: Hides later keys, as a constant of the user's.
CAUSAL = "b = Constant<value = float[3,5] {0, F, F, F, F, 0, 0, F, F, F, 0, 0, 0, F, F}>() e = Add(a, b) "
DIFFERENT = "masks hide keys by different numbers, which logits would change"


@pytest.mark.parametrize(
    ("logits", "reason"),
    [
        ("e = Where(m, a, lowest) l = Where(n, e, low)", DIFFERENT),
        ("e = Where(m, a, low) l = Where(n, e, far)", DIFFERENT),
        (
            "e = Where(m, a, lowest) l = Where(n, e, below)",
            "masks hide keys by different numbers below the limit that both would become",
        ),
        ("e = Where(m, a, low) l = Add(e, c)", "a bias is added to a mask whose number it would change"),
        (
            "w = Where(m, zero, low) e = Add(a, w) l = Where(n, e, low)",
            "one mask is added, and the other hides keys by a number that logits would change",
        ),
        (
            f"{CAUSAL.replace('F', '-1e9')} l = Where(m, e, low)",
            "one mask is added, and the other hides keys by a number that logits would change",
        ),
        (
            f"{CAUSAL.replace('F', '-10000')} l = Where(m, e, low)",
            "one mask is added, and the other hides keys by a number that logits would change",
        ),
        (
            f"{CAUSAL.replace('F', '-1e9')} l = Mul(e, two)",
            "a bias that hides keys is multiplied, and may become infinite",
        ),
        (
            "w = Where(m, zero, low) e = Add(a, w) l = Mul(e, two)",
            "a bias that hides keys is multiplied, and may become infinite",
        ),
    ],
)
def test_numbers_that_cannot_be_in_one_mask(declined, logits, reason):
    assert declined(FuseAttention(), attention(logits), X, "float[3,4] y") == [reason]


@pytest.mark.parametrize(
    ("logits", "mask"),
    [
        ("l = Sub(a, c)", "Neg(Unsqueeze(c, [1]))"),
        ("e = Add(a, c) l = Mul(e, two)", "Mul(Unsqueeze(c, [1]), 2.0)"),
        ("e = Sub(a, c) l = Mul(e, two)", "Mul(Unsqueeze(c, [1]), -2.0)"),
        ("l = Add(c, a)", "Unsqueeze(c, [1])"),
    ],
)
def test_factors_of_a_bias(rewrite, logits, mask):
    text = f'<ir_version: 10, opset_import: ["" : 23]> main ({X}) => (float[3,4] y) {{ {attention(logits)} }}'
    (result,) = rewrite(FuseAttention(), text, tolerance=2e-5)
    assert f"Unsqueeze({mask}, [0])), [3, 4])" in result


def test_a_bias_from_which_logits_are_taken_away_has_no_attention(declined):
    assert declined(FuseAttention(), attention("l = Sub(c, a)"), X, "float[3,4] y") == []


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_constant_that_hides_keys_before_a_mask_of_probabilities(declined):
    body = f"""{CONSTANTS} a = MatMul(x, k) {CAUSAL.replace("F", "-1e9")} l = Where(m, e, inf) w = Softmax<axis = -1>(l)
        p = Where(m, w, zero) y = MatMul(p, v)"""
    reason = "a bias that hides keys is added to the logits, and a mask is applied to the probabilities"
    assert declined(FuseAttention(), body, X, "float[3,4] y") == [reason]


LARGE = "a bias that may be as large as the number of masked keys stands before a mask of the probabilities"


@pytest.mark.filterwarnings("ignore:invalid value")  # the softmax of rows of minus infinity
@pytest.mark.parametrize(
    ("bias", "is_ordinary"),
    [
        ("b = Cast<to = 1>(n)", True),
        ("r = Cast<to = 1>(n) b = Neg(r)", True),
        ("r = Cast<to = 1>(n) b = Mul(r, two)", True),
        ("b = MatMul(x, k)", True),
        ("b = Constant<value = float[5] {1, 2, 3, 4, 999999}>()", True),
        ("b = Constant<value = float[5] {1, 2, 3, -9999, 5}>()", True),
        ("b = Constant<value = float[5] {1, 2, 3, 4, 1000000}>()", False),
        ("b = Constant<value = float[5] {1, 2, 3, inf, 5}>()", False),
        ("b = Identity(c)", False),
        ("r = Cast<to = 1>(n) b = Mul(r, c)", False),
        ("r = Cast<to = 1>(n) b = Exp(r)", False),
        ("b = Cast<to = 1>(d)", False),
        ("r = Cast<to = 1>(j) axes = Constant<value = int64[1] {0}>() b = Unsqueeze(r, axes)", True),
        ("axes = Constant<value = int64[1] {0}>() b = Unsqueeze(o, axes)", False),
        ("axis = Constant<value = int64 {1}>() b = CumSum(c, axis)", True),
        ("b = Softmax<axis = -1>(c)", False),
    ],
)
def test_biases_before_a_mask_of_probabilities(fused, declined, bias, is_ordinary):
    """They are certainly smaller than the number of masked keys, or they are not."""
    inputs = X + ", double[3,5] d, int64[5] j, float[5] o"
    body = f"""{CONSTANTS} a = MatMul(x, k) {bias} e = Add(a, b) l = Where(m, e, inf) w = Softmax<axis = -1>(l) p = Where(m, w, zero)
        y = MatMul(p, v)"""
    if is_ordinary:
        assert "Attention" in fused(FuseAttention(), body, inputs, "float[3,4] y")
    else:
        assert declined(FuseAttention(), body, inputs, "float[3,4] y") == [LARGE]


LAYER = """t{0} = Transpose<perm = [0, 1, 2, 4, 3]>(k{0}) a{0} = MatMul(q{0}, t{0}) l{0} = Where(m, a{0}, far) p{0} = Softmax<axis = -1>(l{0})
    y{0} = MatMul(p{0}, k{0}) """


@pytest.mark.parametrize(("other", "masks"), [(3, 1), (7, 2)])
def test_a_mask_is_shared_by_attentions_of_the_same_batch_alone(fused, other, masks):
    """It is repeated along the axes of the batch that it does not have, of which another attention may have others."""
    inputs = f"float[2,3,4,5,8] q0, float[2,3,4,6,8] k0, float[2,{other},4,5,8] q1, float[2,{other},4,6,8] k1, bool[2,1,1,1,6] m"
    outputs = f"float[2,3,4,5,8] y0, float[2,{other},4,5,8] y1"
    body = f"{CONSTANTS} {LAYER.format(0)} {LAYER.format(1)}"
    operators = fused(FuseAttention(), body, inputs, outputs)
    assert (operators.count("Attention"), operators.count("Gather")) == (2, masks)
