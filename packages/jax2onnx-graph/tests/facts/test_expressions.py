from __future__ import annotations

import pytest
from jax2onnx_graph.facts.expressions import evaluate, holds, is_expression


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
