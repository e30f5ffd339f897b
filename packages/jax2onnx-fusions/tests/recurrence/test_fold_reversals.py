"""Reversed sequences are read from the other end."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.recurrence.fold_reversals import FoldReversals

SINGLE = "float[T,B,3] y"


@pytest.fixture
def fold(fused, recurrent):
    def run(body: str, y: str = SINGLE, x: str = "float[T,B,2] x") -> list[str]:
        return fused(FoldReversals(), recurrent(body), x, y)

    return run


# -- rule 1: an operator that reads a reversed sequence ----------------------------------------------


def test_a_sequence_that_is_reversed_before_and_after(fold):
    body = "back = Reverse(x) LSTM a forward of back; u = Reverse(a) y = Identity(u)"
    assert fold(body) == ["LSTM", "Squeeze", "Identity"]


def test_a_reversed_sequence_with_views_between(fold):
    body = """back = Reverse(x, one) t = Transpose<perm = [1, 0, 2]>(back) LSTM a forward of t;
        u = Transpose<perm = [1, 0, 2]>(a) v = Reverse(u, one) y = Identity(v)"""
    assert fold(body, "float[B,T,3] y", "float[B,T,2] x") == ["Transpose", "LSTM", "Squeeze", "Transpose", "Identity"]


def test_a_reversed_sequence_whose_results_stay_reversed(fold):
    body = "back = Reverse(x) LSTM a forward of back; y = Identity(a)"
    assert fold(body) == ["Slice", "LSTM", "Squeeze", "Identity"]


def test_a_reversed_sequence_of_which_the_last_state_is_read(fold):
    body = "back = Reverse(x) LSTM a reverse of back; y = Identity(ah)"
    assert fold(body, "float[B,3] y") == ["LSTM", "Squeeze", "Identity"]


@pytest.mark.parametrize(
    ("x", "bounds", "is_reversal"),
    [
        ("float[T,B,2] x", "-1, far, 0, -1", True),
        ("float[T,B,2] x", "-1, far, -3, -1", True),
        ("float[T,B,2] x", "-1, far, 1, -1", False),
        ("float[T,B,2] x", "-2, far, 0, -1", False),
        ("float[T,B,2] x", "4, far, 0, -1", False),
        ("float[T,B,2] x", "-1, -5, 0, -1", False),
        ("float[T,B,2] x", "-1, far, 0, -2", False),
        ("float[T,B,2] x", "0, 9, 0, 1", False),
        ("float[5,B,2] x", "4, far, 0, -1", True),
        ("float[5,B,2] x", "3, far, 0, -1", False),
        ("float[5,B,2] x", "-1, -6, 0, -1", True),
        ("float[5,B,2] x", "-1, -5, 0, -1", False),
        ("float[5,B,2] x", "4, 0, 0, -1", False),
        ("float[5,B,2] x", "0, 5, 0, 1", False),
    ],
)
def test_what_reverses_a_sequence(fold, x, bounds, is_reversal):
    numbers = [f"s{i} = Constant<value = int64[1] {{{n}}}>()" for i, n in enumerate(bounds.split(", ")) if n != "far"]
    operands = ", ".join("far" if n == "far" else f"s{i}" for i, n in enumerate(bounds.split(", ")))
    body = f"{' '.join(numbers)} back = Slice(x, {operands}) LSTM a forward of back; y = Identity(ah)"
    assert ("Slice" not in fold(body, "float[B,3] y", x)) == is_reversal


@pytest.mark.parametrize(
    ("x", "axis", "view", "is_below"),
    [
        ("float[B,T,2] x", "one", "Transpose<perm = [1, 0, 2]>(back)", True),
        ("float[B,T,2] x", "nought", "Transpose<perm = [1, 0, 2]>(back)", False),
        ("float[T,1,B,2] x", "nought", "Squeeze(back, one)", True),
        ("float[1,T,B,2] x", "one", "Squeeze(back, nought)", True),
        ("float[T,1,B,2] x", "end", "Squeeze(back, one)", False),
        ("float[T,B,1,2] x", "one", "Squeeze(back, two)", False),
        ("float[T,2] x", "nought", "Unsqueeze(back, one)", True),
        ("float[B,2] x", "nought", "Unsqueeze(back, nought)", False),
        ("float[T,B,2] x", "nought", "Tanh(back)", False),
        ("float[T,B,2] x", "nought", "Identity(back)", False),
    ],
)
def test_views_between_a_reversal_and_its_reader(fold, x, axis, view, is_below):
    body = f"two = Constant<value = int64[1] {{2}}>() back = Reverse(x, {axis}) v = {view} LSTM a forward of v;"
    assert ("Slice" not in fold(f"{body} y = Identity(ah)", "float[B,3] y", x)) == is_below


TRANSPOSED = "t = Transpose<perm = [1, 0, 2]>(a) "


@pytest.mark.parametrize(
    ("readers", "y", "is_turned"),
    [
        ("y = Gather(a, first)", "float[B,3] y", True),
        ("y = Gather<axis = -3>(a, last)", "float[B,3] y", True),
        ("y = Gather<axis = 1>(a, first)", "float[T,3] y", False),
        ("y = Gather(a, one)", "float[1,B,3] y", False),
        ("y = Reverse(a, one)", SINGLE, False),
        (f"{TRANSPOSED} v = Reverse(t, one) y = Neg(v)", "float[B,T,3] y", True),
        (f"{TRANSPOSED} y = Reverse(t)", "float[B,T,3] y", False),
        (f"{TRANSPOSED} y = Gather<axis = 1>(t, first)", "float[B,3] y", True),
        ("u = Reverse(a) v = Tanh(a) y = Add(u, v)", SINGLE, False),
        ("u = Unsqueeze(a, nought) v = Reverse(u, one) y = Neg(v)", "float[1,T,B,3] y", True),
        ("u = Unsqueeze(a, nought) y = Reverse(u)", "float[1,T,B,3] y", False),
        ("u = Reverse(a) y = Neg(u) z = Identity(a)", f"{SINGLE}, float[T,B,3] z", False),
        ("u = Reverse(ya) y = Neg(u)", "float[T,1,B,3] y", True),
        ("y = Neg(ah) u = Reverse(ya) v = Neg(u)", "float[B,3] y, float[T,1,B,3] ya", False),
    ],
)
def test_readers_that_reverse_a_result_too(fold, readers, y, is_turned):
    turned = fold(f"back = Reverse(x) LSTM a forward of back; {readers}", y)
    assert (turned[0] == "LSTM") == is_turned


# -- rule 2: reversals that undo each other ----------------------------------------------------------


def test_a_reversal_of_a_reversal(fold):
    body = """LSTM a reverse; back = Reverse(a) t = Transpose<perm = [1, 0, 2]>(back)
        u = Reverse(t, one) y = Identity(u)"""
    assert fold(body, "float[B,T,3] y") == ["LSTM", "Squeeze", "Transpose", "Identity"]


def test_a_step_of_a_reversed_sequence(fold):
    body = "LSTM a reverse; back = Reverse(a) y = Gather(back, first)"
    assert fold(body, "float[B,3] y") == ["LSTM", "Squeeze", "Gather"]


def test_a_reversal_of_another_axis_stays(fold):
    body = "LSTM a reverse; back = Reverse(a) y = Reverse(back, one)"
    assert fold(body) == ["LSTM", "Squeeze", "Slice", "Slice"]


# -- rule 3: the step that is computed last ----------------------------------------------------------


@pytest.mark.parametrize(("direction", "index"), [("forward", "last"), ("reverse", "first")])
def test_the_last_step_is_the_last_state(fold, direction, index):
    assert fold(f"LSTM a {direction}; y = Gather(a, {index})", "float[B,3] y") == ["LSTM", "Squeeze"]


def test_the_last_step_of_a_transposed_result(fold):
    body = "LSTM a forward; t = Transpose<perm = [1, 0, 2]>(a) y = Gather<axis = 1>(t, last)"
    assert fold(body, "float[B,3] y") == ["LSTM", "Squeeze"]


def test_the_last_step_of_sequences_of_other_lengths_stays(fold):
    body = f"l = Constant<value = int32[1] {{2}}>() back = Identity(x) {RNN} s = Squeeze(yc, one) y = Gather(s, last)"
    assert "Gather" in fold(body, "float[1,3] y", "float[T,1,2] x")


@pytest.mark.parametrize(("direction", "index"), [("forward", "first"), ("reverse", "last")])
def test_the_first_step_is_not(fold, direction, index):
    assert "Gather" in fold(f"LSTM a {direction}; y = Gather(a, {index})", "float[B,3] y")


@pytest.mark.parametrize(
    ("axes", "is_state"), [("{1}", True), ("{-3}", True), ("{1, -1}", False), ("{1, 3}", False), ("{-1, -3}", False)]
)
def test_axes_that_results_lack_may_be_counted_from_the_end(fused, axes, is_state):
    """A state of one feature keeps its axis of features: a view without it is none of its results."""
    count = axes.count(",") + 1
    body = f"""w = Constant<value = float[1,1,2] {{1, 2}}>() r = Constant<value = float[1,1,1] {{0.5}}>() i = Constant<value = int64 {{-1}}>()
        s = Constant<value = int64[{count}] {axes}>() a = RNN<hidden_size = 1>(x, w, r) v = Squeeze(a, s) y = Gather(v, i)"""
    found = fused(FoldReversals(), body, "float[4,3,2] x", "float[3] y" if count == 2 else "float[3,1] y")
    assert ("Gather" not in found) is is_state


RNN = """w = Constant<value = float[1,3,2] {1, 2, 3, 4, 5, 6}>() r = Constant<value = float[1,3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}>()
    b = Constant<value = float[1,6] {1, 2, 3, 4, 5, 6}>() yc, hc = RNN<hidden_size = 3>(back, w, r, b, l) ah = Squeeze(hc, nought)"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "back = Reverse(x) LSTM a forward of back; y = Identity(a)",
            "its results are read in the order of the reversed sequence",
        ),
        (
            """back = Reverse(x) w = Constant<value = float[2,3,2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}>()
            r = Constant<value = float[2,3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}>()
            both = RNN<hidden_size = 3, direction = "bidirectional">(back, w, r) y = ReduceSum<keepdims = 0>(both, one)""",
            "it reads a reversed sequence in both directions",
        ),
        (
            f"l = Constant<value = int32[1] {{2}}>() back = Reverse(x) {RNN} y = Identity(ah)",
            "it has lengths of sequences, or the batch first",
        ),
        (
            f"back = Reverse(x) {RNN} y = Identity(ah)".replace("b, l)", "b)").replace("= 3>", "= 3, layout = 1>"),
            "it has lengths of sequences, or the batch first",
        ),
    ],
)
def test_reasons(declined, recurrent, body, reason):
    assert declined(FoldReversals(), recurrent(body), "float[T,B,2] x", SINGLE) == [reason]


def test_a_sequence_in_order_has_no_reason(declined, recurrent):
    assert declined(FoldReversals(), recurrent("LSTM a forward; y = Identity(a)"), "float[T,B,2] x", SINGLE) == []
