from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.fold_neutral import FoldNeutral

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


@pytest.mark.parametrize(
    ("dtype", "operator", "expected"),
    [
        ("float", "Mul(a, one)", "Neg(Abs(x))"),
        ("float", "Mul(one, a)", "Neg(Abs(x))"),
        ("float", "Div(a, one)", "Neg(Abs(x))"),
        ("float", "Div(one, a)", "Neg(Div([1.0], Abs(x)))"),
        ("float", "Add(a, zero)", "Neg(Add(Abs(x), [0.0]))"),  # -0.0 + 0 is 0.0
        ("float", "Mul(a, zero)", "Neg(Mul(Abs(x), [0.0]))"),
        ("int64", "Add(a, zero)", "Neg(Abs(x))"),
        ("int64", "Add(zero, a)", "Neg(Abs(x))"),
        ("int64", "Sub(a, zero)", "Neg(Abs(x))"),
        ("int64", "Sub(zero, a)", "Neg(Sub([0], Abs(x)))"),
    ],
)
def test_neutral_elements_vanish(rewrite, dtype, operator, expected):
    text = f"g ({dtype}[3] x) => ({dtype}[3] y) <{dtype}[1] one = {{1}}, {dtype}[1] zero = {{0}}> {{ a = Abs(x) s = {operator} y = Neg(s) }}"
    assert rewrite(FoldNeutral(), HEAD + text) == [expected]


def test_a_neutral_element_that_broadcasts_stays(rewrite):
    text = "g (float[3] x) => (float[2,3] y) <float[2,1] one = {1, 1}> { a = Abs(x) y = Mul(a, one) }"
    assert rewrite(FoldNeutral(), HEAD + text) == ["Mul(Abs(x), [[1.0], [1.0]])"]


@pytest.mark.parametrize(
    ("indices", "axis", "expected"),
    [
        ("{0, 1, 2}", 1, "Neg(Abs(x))"),
        ("{0, 1}", 0, "Neg(Abs(x))"),
        ("{0, 2, 1}", 1, "Neg(Gather{1}(Abs(x), [0, 2, 1]))"),
        ("{0, 1}", 1, "Neg(Gather{1}(Abs(x), [0, 1]))"),
        ("{0, 1, 2, 2}", 1, "Neg(Gather{1}(Abs(x), [0, 1, 2, 2]))"),
        ("{-3, 1, 2}", 1, "Neg(Gather{1}(Abs(x), [-3, 1, 2]))"),
        ("{0, 1, 2}", -1, "Neg(Abs(x))"),
    ],
)
def test_all_elements_in_their_order_are_the_operand(rewrite, indices, axis, expected):
    count = indices.count(",") + 1
    text = f"g (float[2,3] x) => (float[A,B] y) <int64[{count}] i = {indices}> {{ a = Abs(x) s = Gather<axis={axis}>(a, i) y = Neg(s) }}"
    assert rewrite(FoldNeutral(), HEAD + text) == [expected]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("y = Add(r, c)", "Add(Sqrt(Abs(x)), [0.5])"),
        ("y = Add(c, r)", "Add([0.5], Sqrt(Abs(x)))"),
        ("y = Add(r, zero)", "Add(Sqrt(Add(Abs(x), [0.0])), [0.0])"),  # sqrt keeps the sign of -0.0
        ("y = Mul(r, c)", "Mul(Sqrt(Add(Abs(x), [0.0])), [0.5])"),
        ("t = Add(r, c) y = Mul(t, r)", "Mul(Add(Sqrt(Add(Abs(x), [0.0])), [0.5]), Sqrt(Add(Abs(x), [0.0])))"),
        ("t = Add(r, c) y = Div(t, s)", "Div(Add(Sqrt(Add(Abs(x), [0.0])), [0.5]), Add(Abs(x), [0.0]))"),
        ("y = Add(r, r)", "Add(Sqrt(Add(Abs(x), [0.0])), Sqrt(Add(Abs(x), [0.0])))"),
        ("t = Add(r, c) u = Add(c, r) y = Mul(t, u)", "Mul(Add(Sqrt(Abs(x)), [0.5]), Add([0.5], Sqrt(Abs(x))))"),
        ("o = Reciprocal(s) y = Add(o, c)", "Add(Reciprocal(Add(Abs(x), [0.0])), [0.5])"),
        (
            "o = Exp(s) t = Add(o, c) u = Add(r, c) y = Mul(t, u)",
            "Mul(Add(Exp(Add(Abs(x), [0.0])), [0.5]), Add(Sqrt(Add(Abs(x), [0.0])), [0.5]))",
        ),
        ("y = Identity(r)", "Identity(Sqrt(Add(Abs(x), [0.0])))"),
    ],
)
def test_zero_vanishes_where_the_sign_of_a_zero_is_lost(rewrite, rest, expected):
    text = "g (float[3] x) => (float[3] y) <float[1] c = {0.5}, float[1] zero = {0}> { a = Abs(x) s = Add(a, zero) r = Sqrt(s) REST }"
    assert rewrite(FoldNeutral(), HEAD + text.replace("REST", rest)) == [expected]


@pytest.mark.parametrize("output", ["s", "r"])
def test_zero_stays_where_a_sum_or_its_root_is_an_output(rewrite, output):
    text = f"""g (float[3] x) => (float[3] y, float[3] {output}) <float[1] c = {{0.5}}, float[1] zero = {{0}}> {{
      a = Abs(x) s = Add(a, zero) r = Sqrt(s) y = Add(r, c) }}"""
    assert rewrite(FoldNeutral(), HEAD + text)[0] == "Add(Sqrt(Add(Abs(x), [0.0])), [0.5])"


def test_a_table_of_indices_is_no_axis(rewrite):
    text = "g (float[2,3] x) => (float[1,2,3] y) <int64[1,2] i = {0, 1}> { a = Abs(x) y = Gather(a, i) }"
    assert rewrite(FoldNeutral(), HEAD + text) == ["Gather(Abs(x), [[0, 1]])"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("bool c = {1}", "Neg(Abs(x))"),
        ("bool c = {0}", "Neg(Exp(x))"),
        ("bool[3] c = {1, 1, 1}", "Neg(Abs(x))"),
        ("bool[1, 1] c = {0}", "Neg(Exp(x))"),
        ("bool[3] c = {1, 0, 1}", "Neg(Where([True, False, True], Abs(x), Exp(x)))"),
    ],
)
def test_a_constant_condition_chooses(rewrite, condition, expected):
    rank = "1,3" if "1, 1" in condition else "3"
    text = f"g (float[{rank}] x) => (float[{rank}] y) <{condition}> {{ a = Abs(x) b = Exp(x) w = Where(c, a, b) y = Neg(w) }}"
    assert rewrite(FoldNeutral(), HEAD + text) == [expected]


def test_a_choice_that_broadcasts_stays(rewrite):
    text = "g (float[3] x) => (float[3] y) <bool c = {1}, float[1] one = {1}> { w = Where(c, one, x) y = Neg(w) }"
    assert rewrite(FoldNeutral(), HEAD + text) == ["Neg(Where(True, [1.0], x))"]
