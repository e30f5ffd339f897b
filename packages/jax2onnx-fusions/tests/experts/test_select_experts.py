from __future__ import annotations

import pytest
from jax2onnx_fusions.experts.select_experts import NOT_FINITE, SelectExperts
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Threshold

X = "float[T,4] x, int64[T,2] i, float[T,2] v, float[8,4,3] u, float[8,3,4] d, float[T,8] dense"
Y = "float[T,4] y"
CONSTANTS = """zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>() two = Constant<value = int64[1] {2}>()
    none = Constant<value = float {0}>() n = Constant<value = int64[8] {0, 1, 2, 3, 4, 5, 6, 7}>() flat = Constant<value = int64[1] {-1}>()"""
ONE_HOT = """iu = Unsqueeze(i, two) eq = Equal(iu, n) c = Cast<to = 1>(eq) vu = Unsqueeze(v, two) p = Mul(c, vu)
    s = ReduceSum<keepdims = 0>(p, one)"""
EXPERTS = "xu = Unsqueeze(x, zero) h = MatMul(xu, u) r = Relu(h) m = MatMul(r, d)"
SUM = "st = Transpose<perm = [1, 0]>(s) su = Unsqueeze(st, two) q = Mul(su, m) y = ReduceSum<keepdims = 0>(q, zero)"
PRODUCT = "su = Unsqueeze(s, one) mt = Transpose<perm = [1, 0, 2]>(m) q = MatMul(su, mt) y = Squeeze(q, one)"


@pytest.fixture
def small(limited):
    """A target for which choosing experts pays however small they are, under the promise that all numbers are finite."""
    return limited(thresholds={Threshold.OPERATOR_CALL: 0}).assuming([Assumption.FINITE])


@pytest.mark.parametrize("end", [SUM, PRODUCT])
def test_gates_of_one_hots(fused, small, end):
    operators = fused(SelectExperts(small), CONSTANTS + ONE_HOT + EXPERTS + end, X, Y)
    assert operators.count("Split") == 2
    assert operators.count("MatMul") == 2 * 8 + 1


@pytest.mark.parametrize(
    "gates",
    [
        "nn = Not(eq) f = Cast<to = 1>(eq) t = Mul(f, vu) k = Div(t, vu) s = ReduceSum<keepdims = 0>(k, one)",
        "w = Where(eq, vu, none) s = ReduceMax<keepdims = 0>(w, one)",
        "vr = Unsqueeze(v, one) mm = MatMul(vr, c) s = Squeeze(mm, one)",
        "a = ReduceSum<keepdims = 0>(p, one) b = Neg(a) s = Sub(a, b)",
    ],
)
def test_gates_of_which_few_are_other_than_zero(fused, small, gates):
    body = CONSTANTS + ONE_HOT.replace("s = ", "old = ") + gates + EXPERTS + SUM
    assert "Split" in fused(SelectExperts(small), body, X, Y)


def test_the_number_of_a_scatter_is_counted_when_it_runs(fused, small):
    gates = """shape = Shape(dense) zeros = Expand(none, shape) eight = Constant<value = int64 {8}>() j = Mod(i, eight)
        s = ScatterElements<axis = 1>(zeros, j, v)"""
    assert "ReduceMax" in fused(SelectExperts(small), CONSTANTS + gates + EXPERTS + SUM, X, Y)


def test_booleans_that_select_need_no_promise(fused, limited):
    target = limited(thresholds={Threshold.OPERATOR_CALL: 0})
    body = """iu = Unsqueeze(i, two) eq = Equal(iu, n) c = Cast<to = 6>(eq) a = ReduceMax<keepdims = 0>(c, one) s = Cast<to = 9>(a)
        st = Transpose<perm = [1, 0]>(s) su = Unsqueeze(st, two) q = Where(su, m, none) y = ReduceSum<keepdims = 0>(q, zero)"""
    assert "Split" in fused(SelectExperts(target), CONSTANTS + EXPERTS + body, X, Y)


def test_experts_stay_where_a_branch_sums_them_up(fused, small):
    terms, _, end = SUM.partition("y =")
    branches = f"then_branch = f () => (float[T,4] y0) {{ y0 ={end} }}, else_branch = g () => (float[T,4] y1) {{ y1 = Neg(x) }}"
    body = f"{CONSTANTS} {ONE_HOT} {EXPERTS} {terms} y = If(choice) <{branches}>"
    operators = fused(SelectExperts(small), body, f"{X}, bool choice", Y)
    assert operators.count("MatMul") == 2


@pytest.mark.parametrize("axis", [0, 1])
def test_tokens_or_experts_that_are_mixed_are_no_mixture(declined, small, axis):
    experts = EXPERTS.replace("Relu(h)", f"Softmax<axis = {axis}>(h)")
    assert declined(SelectExperts(small), CONSTANTS + ONE_HOT + experts + SUM, X, Y) == []


def test_dense_gates_are_no_mixture(declined, small):
    assert declined(SelectExperts(small), CONSTANTS + "s = Softmax(dense)" + EXPERTS + SUM, X, Y) == []


def test_products_with_zero_need_the_promise(declined, limited):
    target = limited(thresholds={Threshold.OPERATOR_CALL: 0})
    assert declined(SelectExperts(target), CONSTANTS + ONE_HOT + EXPERTS + SUM, X, Y) == [NOT_FINITE]


def test_small_experts_stay(declined, limited):
    target = limited().assuming([Assumption.FINITE])
    (reason,) = declined(SelectExperts(target), CONSTANTS + ONE_HOT + EXPERTS + SUM, X, Y)
    assert reason == "the experts are so small that choosing them takes longer than computing all"


def test_another_reader_of_what_the_experts_make_is_a_reason(declined, small):
    body = CONSTANTS + ONE_HOT + EXPERTS + SUM + " z = Identity(m)"
    assert declined(SelectExperts(small), body, X, f"{Y}, float[8,T,4] z") == [
        "what the experts make is read elsewhere, too"
    ]


def test_more_than_half_of_the_experts_is_a_reason(declined, small):
    wide = X.replace("[T,2]", "[T,5]")
    assert declined(SelectExperts(small), CONSTANTS + ONE_HOT + EXPERTS + SUM, wide, Y) == [
        "more than half of the experts may count for a token"
    ]


@pytest.mark.parametrize(
    ("shape", "product"),
    [
        ("8,4,3", "h = MatMul(xu, k)"), ("8,3,4", "t = Transpose<perm = [0, 2, 1]>(k) h = MatMul(xu, t)"),
        ("4,8,3", "t = Transpose<perm = [1, 0, 2]>(k) h = MatMul(xu, t)"), ("4,24", "t = Reshape(k, split) v8 = Transpose<perm = [1, 0, 2]>(t) h = MatMul(xu, v8)"),
    ],
)  # fmt: skip
def test_each_expert_has_its_matrix_of_a_constant(fused, small, shape, product):
    numbers = ", ".join(str((7 * i % 23 - 11) / 8) for i in range(96))
    values = f"float[{shape}] k = {{{numbers}}}, int64[3] split = {{4, 8, 3}}"
    body = f"{CONSTANTS} {ONE_HOT} xu = Unsqueeze(x, zero) {product} r = Relu(h) m = MatMul(r, d) {SUM}"
    operators = fused(SelectExperts(small), body, X, Y, values=values)
    assert operators.count("MatMul") == 2 * 8 + 1
