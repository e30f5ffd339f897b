from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.fold_flags import FoldFlags

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


def _text(body: str, size: str = "3") -> str:
    numbers = "float c0 = {0}, float c1 = {1}, float half = {0.5}, float two = {2}, int64 i0 = {0}, int64 i1 = {1}, int64[1] axis = {0}"
    return f"{HEAD}g (bool[3] a, bool[3] b) => (bool[{size}] y) <{numbers}> {{ {body} }}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("n = Cast<to = 1>(a) y = Greater(n, c0)", "a"),
        ("n = Cast<to = 1>(a) y = Greater(n, half)", "a"),
        ("n = Cast<to = 1>(a) y = Equal(c0, n)", "Not(a)"),
        ("n = Cast<to = 1>(a) y = Less(c0, n)", "a"),
        ("n = Cast<to = 7>(a) y = GreaterOrEqual(n, i1)", "a"),
        ("n = Cast<to = 7>(a) y = LessOrEqual(n, i0)", "Not(a)"),
        ("n = Where(a, i0, i1) y = Cast<to = 9>(n)", "Not(a)"),
        ("n = Where(a, two, half) y = Greater(n, c1)", "a"),
        ("p = Cast<to = 1>(a) q = Cast<to = 1>(b) n = Mul(p, q) y = Greater(n, c0)", "And(a, b)"),
        ("n = Not(a) y = Not(n)", "a"),
    ],
)
def test_booleans_stay_booleans(rewrite, body, expected):
    (found,) = rewrite(FoldFlags(), _text(body))
    assert found.replace("Identity(a)", "a") == expected


def test_views_on_the_way_are_views_of_the_booleans(rewrite):
    assert rewrite(FoldFlags(), _text("n = Cast<to = 1>(a) v = Unsqueeze(n, axis) y = Greater(v, c0)", "1,3")) == [
        "Unsqueeze(a, [0])"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "n = Cast<to = 1>(a) y = Greater(n, two)",  # never
        "n = Cast<to = 1>(a) y = GreaterOrEqual(n, c0)",  # always
        "n = Where(a, two, two) y = Greater(n, c0)",
        "p = Cast<to = 1>(a) q = Where(b, two, c1) n = Mul(p, q) y = Greater(n, c0)",
        "p = Cast<to = 1>(a) q = Cast<to = 1>(b) n = Add(p, q) y = Greater(n, c0)",
        "p = Cast<to = 1>(a) q = Cast<to = 1>(b) y = Greater(p, q)",
    ],
)
def test_other_comparisons_stay(rewrite, body):
    (found,) = rewrite(FoldFlags(), _text(body))
    assert "Greater" in found


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [("Equal(n, large)", "Identity(a)"), ("Equal(n, larger)", "Not(a)"), ("Less(n, larger)", "Identity(a)")],
)
def test_integers_that_are_no_floats_are_compared_as_they_are(rewrite, comparison, expected):
    text = f"n = Where(a, large, larger) y = {comparison}"
    numbers = "int64 large = {9007199254740992}, int64 larger = {9007199254740993}, int64 i0"
    assert rewrite(FoldFlags(), _text(text).replace("int64 i0", numbers)) == [expected]
