"""Two directions become one operator."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.recurrence.join_directions import JoinDirections

X, H0 = "float[T,B,2] x", "float[1,B,3] h0, float[1,B,3] h1"
SINGLE = "float[T,B,3] y"
BOTH = "LSTM a forward; LSTM b reverse;"


@pytest.fixture
def join(fused, recurrent):
    def run(body: str, y: str = "float[T,B,6] y", x: str = X) -> list[str]:
        return fused(JoinDirections(), recurrent(body), x, y)

    return run


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_results_of_all_steps(join, operator):
    layers = [f"{operator} a forward;", f"{operator} b reverse;"]
    assert join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)") == [operator, "Transpose", "Reshape"]


def test_the_direction_that_comes_first_does_not_matter(join):
    body = "LSTM b reverse; LSTM a forward; y = Concat<axis = -1>(a, b)"
    assert join(body) == ["LSTM", "Transpose", "Reshape"]


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_batch_may_be_the_first_axis(join, place):
    body = {
        "before": """ta = Transpose<perm = [1, 0, 2]>(a) tb = Transpose<perm = [1, 0, 2]>(b)
            y = Concat<axis = 2>(ta, tb)""",
        "after": "both = Concat<axis = 2>(a, b) y = Transpose<perm = [1, 0, 2]>(both)",
    }[place]
    assert join(f"{BOTH} {body}", "float[B,T,6] y") == ["LSTM", "Transpose", "Reshape"]


def test_directions_of_two_sequences_stay(join):
    body = "s = Tanh(x) LSTM a forward of x; LSTM b reverse of s; y = Concat<axis = 2>(a, b)"
    assert join(body).count("LSTM") == 2


def test_last_states(join):
    assert join(f"{BOTH} y = Concat<axis = 1>(ah, bh)", "float[B,6] y") == ["LSTM", "Transpose", "Reshape"]


def test_last_states_along_the_axis_of_directions(join):
    body = f"{BOTH} ua = Unsqueeze(ah, nought) ub = Unsqueeze(bh, nought) y = Concat<axis = 0>(ua, ub)"
    assert join(body, "float[2,B,3] y") == ["LSTM"]


def test_what_is_read_apart(join):
    body = f"{BOTH} y = Concat<axis = 2>(a, b) z = Tanh(a) u = Identity(bh)"
    operators = join(body, "float[T,B,6] y, float[T,B,3] z, float[B,3] u")
    assert sorted(operators) == sorted(
        ["LSTM", "Transpose", "Reshape"] + 2 * ["Split", "Squeeze"] + ["Tanh", "Identity"]
    )


def test_first_states(join):
    layers = ["LSTM a forward, , h0, c0;", "LSTM b reverse, , h1, c0;"]
    operators = join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)", x=f"{X}, {H0}, float[1,B,3] c0")
    assert operators == ["Concat", "Concat", "LSTM", "Transpose", "Reshape"]


def test_first_states_that_are_computed_between(join):
    layers = ["LSTM a forward, , h0, c0;", "t = Tanh(h0) u = Neg(t)", "LSTM b reverse, , u, c0;"]
    operators = join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)", x=f"{X}, {H0}, float[1,B,3] c0")
    assert operators == ["Tanh", "Neg", "Concat", "Concat", "LSTM", "Transpose", "Reshape"]


def test_a_first_state_that_the_other_direction_computes(join):
    layers = ["LSTM a forward, , h0, h0;", "t = Tanh(ha)", "LSTM b reverse, , t, h0;"]
    operators = join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)", x=f"{X}, {H0}")
    assert operators.count("LSTM") == 2


def test_first_states_of_one_direction_only(join):
    layers = ["LSTM a forward, , h0, h1;", "LSTM b reverse;"]
    assert join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)", x=f"{X}, {H0}").count("LSTM") == 2


@pytest.mark.parametrize(
    "body",
    [
        f"{BOTH} y = Concat<axis = 2>(b, a)",
        "LSTM a forward; LSTM b forward; y = Concat<axis = 2>(a, b)",
        "LSTM a forward; z = Tanh(x) LSTM b reverse of z; y = Concat<axis = 2>(a, b)",
        "LSTM a forward; GRU b reverse; y = Concat<axis = 2>(a, b)",
    ],
    ids=["backwards first", "one direction twice", "two sequences", "two operators"],
)
def test_what_stays_apart(join, body):
    assert "Concat" in join(body)


def test_a_sum_stays(join):
    assert join(f"{BOTH} y = Add(a, b)", SINGLE).count("LSTM") == 2


CONCAT = "y = Concat<axis = 2>(a, b)"
PLAIN = """wa = Constant<value = float[1,3,2] {1, 2, 3, 4, 5, 6}>()
    ra = Constant<value = float[1,3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}>() ba = Constant<value = float[1,6] {1, 2, 3, 4, 5, 6}>()
    ya = RNN<hidden_size = 3>(x, wa, ra, ba) a = Squeeze(ya, one)
    yb = RNN<hidden_size = 3, direction = "reverse">(x, wa, ra, ba) b = Squeeze(yb, one)"""


@pytest.mark.parametrize(
    ("body", "inputs", "reason"),
    [
        (
            f"{BOTH} y = Concat<axis = 2>(b, a)",
            X,
            "the results of the two directions are not concatenated, forwards first",
        ),
        (
            f"LSTM a forward, , h0, h0; t = Tanh(ha) LSTM b reverse, , t, h0; {CONCAT}",
            f"{X}, {H0}",
            "one direction begins with what the other one computes",
        ),
        (
            f"LSTM a forward, , h0, h1; LSTM b reverse; {CONCAT}",
            f"{X}, {H0}",
            "only one of the two directions has first states",
        ),
        (
            f"{PLAIN} {CONCAT}".replace("wa = Constant<value = float[1,3,2] {1, 2, 3, 4, 5, 6}>()", ""),
            f"{X}, float[1,3,2] wa",
            "the weights are not constant",
        ),
        (
            f"{PLAIN} {CONCAT}".replace("ra, ba)", "ra)"),
            X,
            "the two directions have sequence lengths or peepholes, or no biases",
        ),
        (
            f"{PLAIN} {CONCAT}".replace("<hidden_size = 3>", '<hidden_size = 3, activations = ["Relu"]>'),
            X,
            "the two directions have different attributes, or parameters of activations, or the batch first",
        ),
    ],
)
def test_reasons(declined, recurrent, body, inputs, reason):
    assert declined(JoinDirections(), recurrent(body), inputs, "float[T,B,6] y") == [reason]


def test_one_direction_has_no_reason(declined, recurrent):
    body = "LSTM a forward; LSTM b forward; y = Concat<axis = 2>(a, b)"
    assert declined(JoinDirections(), recurrent(body), X, "float[T,B,6] y") == []


@pytest.mark.parametrize(
    ("before", "inside", "is_joined"),
    [
        ("", "y0 = Concat<axis = 2>(a, b)", False),
        ("", "r = Concat<axis = 2>(a, b) y0 = Neg(r)", False),
        ("", "s = Transpose<perm = [1, 0, 2]>(a) t = Transpose<perm = [1, 0, 2]>(b) r = Concat<axis = 2>(s, t) y0 = Transpose<perm = [1, 0, 2]>(r)", False),
        ("", "r = Squeeze(ya, one) s = Squeeze(yb, one) y0 = Concat<axis = 2>(r, s)", False),
        ("both = Concat<axis = 2>(a, b)", "y0 = Neg(both)", True),
        ("both = Concat<axis = 2>(a, b)", "r = Transpose<perm = [1, 0, 2]>(both) y0 = Transpose<perm = [1, 0, 2]>(r)", True),
    ],
)  # fmt: skip
def test_results_that_a_branch_reads(join, before, inside, is_joined):
    branches = f"then_branch = f () => (float[T,B,6] y0) {{ {inside} }}, else_branch = g () => (float[T,B,6] y1) {{ y1 = Concat<axis = 2>(b, a) }}"
    operators = join(f"{BOTH} {before} y = If(p) <{branches}>", x=f"{X}, bool p")
    assert operators.count("LSTM") == 2 - is_joined
