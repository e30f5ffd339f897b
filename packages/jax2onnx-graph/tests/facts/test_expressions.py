from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph.facts.expressions import evaluate, holds, is_expression, solutions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("T", 3),
        ("2*T + 1", 7),
        ("-T + S", 2),
        ("T^2 - T", 6),
        ("floordiv(S, 2)", 2),
        ("mod(-1*T, 4)", 1),
        ("max(S, T) * min(S, T)", 15),
        ("(S - 1)*(T + 1)", 16),
        ("S // 2 + S % 2", 3),
    ],
)
def test_an_expression_is_computed(text, value):
    assert evaluate(text, {"T": 3, "S": 5}) == value


@pytest.mark.parametrize(
    ("text", "truth"),
    [("T >= 2", True), ("T<=2", False), ("mod(S, 5) == 0", True), ("2*T > S", True), ("T < T", False)],
)
def test_a_comparison_is_decided(text, truth):
    assert holds(text, {"T": 3, "S": 5}) is truth


@pytest.mark.parametrize(
    "text",
    [
        "batch size",
        "height / 8",
        "onnx::Gather_12",
        "",
        "f(x)",
        "x.y",
        "a if b else c",
        "9^9^9",
        "T^99",
        "True",
        "1.5",
        "(" * 1000,
    ],
)
def test_other_texts_are_none(text):
    assert not is_expression(text)


def test_what_compares_nothing_is_refused():
    with pytest.raises(ValueError, match="compares no two expressions"):
        holds("T + 1", {"T": 3})


@pytest.mark.parametrize(
    "text",
    ["T >= 2", "mod(T, S) == 2", "floordiv(S, T) <= 1", "max(S, T) - min(S, T) == 3", "T^2 > 3*S", "T != 4", "2 <= T"],
)
def test_the_solutions_are_the_sizes_at_which_the_comparison_holds(text):
    tried = np.arange(9, 0, -1)
    assert [*solutions(text, "T", tried, {"S": 5})] == [int(t) for t in tried if holds(text, {"S": 5, "T": int(t)})]


def test_a_size_that_divides_by_zero_is_not_an_error_among_those_tried():
    assert [*solutions("mod(S, T) == 0", "T", np.arange(1, 7), {"S": 6})] == [1, 2, 3, 6]
    assert solutions("mod(S, T) >= 1", "T", np.arange(1), {"S": 6}).size == 0
