"""Mixtures of experts in many forms, each run before and after; and those that differ in one thing, which stay as they are."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.experts.select_experts import SelectExperts
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Threshold

X = """float[T,4] x, int64[T,2] i, float[T,2] v, float[8,4,3] u, float[8,3,4] d, float[8,3,3] square, float[8,1,3] bias, float[3] shared,
    float[8,4] row, float[3,3] plain, float[T,3] by_token, float[1] number, float[4,24] wide, float[24] flat_bias, float[8,T,3] pair"""
Y = "float[T,4] y"
CONSTANTS = """a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>() a2 = Constant<value = int64[1] {2}>()
    back = Constant<value = int64[1] {-1}>() zero = Constant<value = float {0}>() half = Constant<value = float {0.5}>()
    n = Constant<value = int64[8] {0, 1, 2, 3, 4, 5, 6, 7}>() one_two = Constant<value = int64[2] {1, 2}>() a3 = Constant<value = int64[1] {3}>()
    thrice = Constant<value = int64[3] {1, 1, 3}>() some = Constant<value = int64[2] {2, 0}>() parts = Constant<value = int64[2] {1, 2}>()
    split = Constant<value = int64[4] {8, 0, 3, 1}>() joined = Constant<value = int64[3] {8, 0, 3}>() w8 = Constant<value = int64[3] {0, 8, 3}>() w4 = Constant<value = int64[3] {4, 8, 3}>() """
ONE_HOT = "iu = Unsqueeze(i, a2) eq = Equal(iu, n) c = Cast<to = 1>(eq) vu = Unsqueeze(v, a2) p = Mul(c, vu) "
GATES = ONE_HOT + "s = ReduceSum<keepdims = 0>(p, a1) st = Transpose<perm = [1, 0]>(s) su = Unsqueeze(st, a2) "
BOOLEANS = (
    ONE_HOT
    + "k = ReduceMax<keepdims = 0>(c, a1) kt = Transpose<perm = [1, 0]>(k) ku = Unsqueeze(kt, a2) b = Cast<to = 9>(ku) "
)
UP, DOWN = "xu = Unsqueeze(x, a0) h = MatMul(xu, u) ", "m = MatMul(r, d) "
SUM = "q = Mul(su, m) y = ReduceSum<keepdims = 0>(q, a0)"


@pytest.fixture
def small(limited):
    """A target for which choosing experts pays however small they are, under the promise that all numbers are finite."""
    return limited(thresholds={Threshold.OPERATOR_CALL: 0}).assuming([Assumption.FINITE])


@pytest.mark.parametrize(
    "made",
    [
        "r = Add(h, bias)", "r = Sub(shared, h)", "r = Mul(h, number)", "r = Mul(half, h)", "r = Add(h, by_token)", "r = Mul(by_token, h)",
        "r = Where(truth, h, zero)", "r = Clip(h, zero, half)", "r = Mul(h, pair)", "r = Sub(pair, h)",
        "r = Softmax(h)", "r = Softmax<axis = 2>(h)", "t = ReduceMean(h, a2) r = Sub(h, t)", "t = ReduceMax<keepdims = 0>(h, back) k = Unsqueeze(t, a2) r = Div(k, h)",
        "r = MatMul(h, plain)", "t = Relu(h) r = MatMul(t, square)", "f = Add(h, bias) r = MatMul(f, plain)",
        "k, l = Split<axis = 2>(h, parts) r = Concat<axis = 2>(l, k)", "k, l = Split<axis = -1>(h, parts) t = Mul(l, k) r = Concat<axis = -1>(t, k)",
        "k = Unsqueeze(h, a3) l = Relu(k) r = Squeeze(l, a3)", "k = Reshape(h, split) l = Neg(k) r = Reshape(l, joined)",
        "k = Transpose<perm = [1, 0, 2]>(h) l = Relu(k) r = Transpose<perm = [1, 0, 2]>(l)",
        "k = Transpose<perm = [0, 2, 1]>(h) l = Relu(k) r = Transpose<perm = [0, 2, 1]>(l)",
        "k = ReduceSum(h, a2) r = Expand(k, thrice)", "r = CumSum(h, two)", "r = LayerNormalization<axis = -1>(h, shared)",
        "k = Transpose<perm = [0, 2, 1]>(square) r = MatMul(h, k)", "r = Clip(h, , half)", "t = MatMul(xu, u) r = Mul(t, h)",
        "k = Slice(h, a0, a2, a2) l = Slice(h, a2, a3, a2) r = Concat<axis = 2>(l, k)", "k = Unsqueeze(h, a2) l = MatMul(k, plain) r = Squeeze(l, a2)",
        "k = Unsqueeze(h, a2) l = Transpose<perm = [2, 0, 3, 1]>(k) e = Exp(l) t = Transpose<perm = [1, 3, 0, 2]>(e) r = Squeeze(t, a2)",
        "k = Reshape(wide, w4) l = Transpose<perm = [1, 0, 2]>(k) t = MatMul(xu, l) r = Add(h, t)",
    ],
)  # fmt: skip
def test_what_experts_compute_for_each_token_by_itself(fused, small, made):
    given = "two = Constant<value = int64 {2}>() truth = Greater(h, half) "
    operators = fused(SelectExperts(small), CONSTANTS + GATES + UP + given + made + " " + DOWN + SUM, X, Y)
    assert operators.count("Split") - made.count("Split") >= 2


@pytest.mark.parametrize(
    "made",
    [
        "r = Softmax<axis = 0>(h)", "r = Softmax<axis = 1>(h)", "t = ReduceMean(h, a1) r = Sub(h, t)", "t = ReduceMean(h, a0) r = Sub(h, t)",
        "r = CumSum(h, one)", "r = CumSum(h, none)", "k = Gather<axis = 0>(h, n) r = Relu(k)", "r = LayerNormalization<axis = 1>(h, number)",
        "t = ReduceMean<keepdims = 1>(h) r = Sub(h, t)",
    ],
)  # fmt: skip
def test_what_tokens_or_experts_compute_of_each_other_stays(fused, small, made):
    given = "one = Constant<value = int64 {1}>() none = Constant<value = int64 {0}>() "
    operators = fused(SelectExperts(small), CONSTANTS + GATES + UP + given + made + " " + DOWN + SUM, X, Y)
    assert "TopK" not in operators


@pytest.mark.parametrize(
    "end",
    [
        "q = Mul(m, su) y = ReduceSum<keepdims = 0>(q, a0)",
        "g = Unsqueeze(s, a1) mt = Transpose<perm = [1, 0, 2]>(m) q = MatMul(g, mt) y = Squeeze(q, a1)",
        "g = Unsqueeze(s, a2) mt = Transpose<perm = [1, 2, 0]>(m) q = MatMul(mt, g) y = Squeeze(q, a2)",
        "mt = Transpose<perm = [1, 0, 2]>(m) g = Unsqueeze(s, a2) q = Mul(g, mt) y = ReduceSum<keepdims = 0>(q, a1)",
        "mt = Transpose<perm = [1, 2, 0]>(m) g = Unsqueeze(s, a1) q = Mul(g, mt) y = ReduceSum<keepdims = 0>(q, back)",
        "q = Mul(m, su) t = ReduceSum<keepdims = 1>(q, a0) y = Squeeze(t, a0)",
        "w = Cast<to = 9>(su) q = Where(w, m, zero) y = ReduceSum<keepdims = 0>(q, a0)",
    ],
)  # fmt: skip
def test_sums_over_experts(fused, small, end):
    assert fused(SelectExperts(small), CONSTANTS + GATES + UP + "r = Relu(h) " + DOWN + end, X, Y).count("TopK") >= 1


@pytest.mark.parametrize(
    "end",
    [
        "q = Add(su, m) y = ReduceSum<keepdims = 0>(q, a0)",
        "q = Mul(su, m) y = ReduceMax<keepdims = 0>(q, a0)",
        "w = Cast<to = 9>(su) q = Where(w, m, half) y = ReduceSum<keepdims = 0>(q, a0)",
        "w = Cast<to = 9>(su) q = Where(w, zero, m) y = ReduceSum<keepdims = 0>(q, a0)",
        "q = Mul(su, m) t = ReduceSum<keepdims = 0>(q, a2) y = MatMul(z, t)",
        "q = Mul(su, m) t = ReduceSum<keepdims = 0>(q, a0) y = Add(t, p0)",
    ],
)  # fmt: skip
def test_what_is_no_sum_over_experts_stays(fused, small, end):
    body = CONSTANTS + GATES + UP + "r = Relu(h) " + DOWN + "z = Transpose<perm = [1, 0]>(pick) p0 = Gather(m, none) "
    given = "none = Constant<value = int64 {0}>() "
    inputs, output = X + ", float[8,4] pick", "float[T,4] y" if "MatMul(z" not in end else "float[4,T] y"
    assert "TopK" not in fused(SelectExperts(small), given + body + end, inputs, output)


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("r = Mul(h, su)", True), ("r = Mul(su, h)", True), ("k = Relu(h) r = Mul(su, k)", True), ("k = Mul(su, h) r = Neg(k)", True),
        ("k = Mul(su, h) r = Div(k, bias)", True), ("k = Mul(su, h) r = Mul(k, pair)", True), ("w = Cast<to = 9>(su) r = Where(w, h, zero)", True),
        ("k = Mul(su, h) r = MatMul(k, square)", True), ("k = Mul(su, h) r = MatMul(k, plain)", True),
        ("r = Add(h, su)", False), ("k = Mul(su, h) r = Add(k, bias)", False), ("k = Mul(su, h) r = Cos(k)", False), ("k = Mul(su, h) o = Exp(bias) r = Sub(o, k)", False),
        ("w = Cast<to = 9>(su) r = Where(w, h, half)", False), ("w = Cast<to = 9>(su) r = Where(w, zero, h)", False),
        ("w = Cast<to = 9>(su) r = Where(w, h, by_token)", False), ("k = Mul(su, h) r = HardSigmoid(k)", False), ("k = Mul(su, h) r = Pow(k, half)", False),
        ("k = Mul(su, h) r = Softmax(k)", False), ("t = ReduceMax(su, a1) r = Mul(t, h)", False), ("t = ReduceMax(su, a0) r = Mul(t, h)", False),
    ],
)  # fmt: skip
def test_gates_before_the_last_product(fused, small, made, is_found):
    """They are factors of what is summed, or they are not."""
    end = DOWN + "y = ReduceSum<keepdims = 0>(m, a0)"
    assert ("TopK" in fused(SelectExperts(small), CONSTANTS + GATES + UP + made + " " + end, X, Y)) is is_found


@pytest.mark.parametrize("axis", [0, 1])
def test_gates_before_the_last_product_where_either_axis_has_the_experts(fused, small, axis):
    end = f"mt = Transpose<perm = {[[0, 1, 2], [1, 0, 2]][axis]}>(m) y = ReduceSum<keepdims = 0>(mt, a{axis})"
    body = CONSTANTS + GATES + UP + "r = Mul(h, su) " + DOWN + end
    assert "TopK" in fused(SelectExperts(small), body, X, Y)


#: Up-projections of all experts in one product, and down-projections that sum over experts and features.
MERGED = "f = MatMul(x, wide) fh = Reshape(f, w8) h = Transpose<perm = [1, 0, 2]>(fh) "


@pytest.mark.parametrize("made", ["r = Relu(h)", "k = Add(h, bias) r = Relu(k)"])
def test_one_product_for_all_experts(fused, small, made):
    operators = fused(SelectExperts(small), CONSTANTS + GATES + MERGED + made + " " + DOWN + SUM, X, Y)
    assert "TopK" in operators


#: The same with each expert's features beside those of others: [T, 24].
FLAT = """float[T,4] x, int64[T,2] i, float[T,2] v, float[4,24] up, float[24,4] up_t, float[24] bias, float[24,4] down, float[4,24] down_t,
    float[4] shared, float[3] three, float[T,8] dense"""
IN_ROWS = "f = {up} fh = Reshape(f, w8) r = Relu(fh) g = Unsqueeze(s, a2) "
FACTORS = "k = Mul(g, r) kf = Reshape(k, flat) "
FLAT_GIVEN = CONSTANTS + GATES + "flat = Constant<value = int64[2] {0, 24}>() "


@pytest.mark.parametrize(
    ("up", "down", "is_found"),
    [
        ("MatMul(x, up)", "MatMul(kf, down)", True), ("Gemm(x, up, bias)", "Gemm(kf, down, shared)", False), ("Gemm(x, up, bias)", "MatMul(kf, down)", True),
        ("Gemm<transB = 1>(x, up_t, bias)", "MatMul(kf, down)", True), ("Gemm<transB = 1>(x, up_t)", "MatMul(kf, down)", True),
        ("Gemm(x, up)", "MatMul(kf, down)", True), ("Gemm<alpha = 2.0>(x, up)", "MatMul(kf, down)", False), ("Gemm<beta = 0.5>(x, up, bias)", "MatMul(kf, down)", False),
        ("Gemm<alpha = 0.5>(x, up)", "MatMul(kf, down)", False), ("Gemm<beta = 2.0>(x, up, bias)", "MatMul(kf, down)", False),
    ],
)  # fmt: skip
def test_products_of_all_experts_at_once(fused, small, up, down, is_found):
    body = FLAT_GIVEN + IN_ROWS.format(up=up) + FACTORS + f"y = {down}"
    assert ("TopK" in fused(SelectExperts(small), body, FLAT, Y)) is is_found


@pytest.mark.parametrize(
    ("factors", "is_found"),
    [
        (FACTORS, True), ("k = Mul(g, r) o = Neg(k) kf = Reshape(o, flat) ", True), ("k = Mul(g, r) o = Mul(k, three) kf = Reshape(o, flat) ", True),
        ("k = Add(g, r) kf = Reshape(k, flat) ", False), ("k = Mul(g, r) o = Add(k, three) kf = Reshape(o, flat) ", False),
        ("o = Unsqueeze(dense, a2) k = Mul(o, r) kf = Reshape(k, flat) ", False),
        ("k = Mul(g, r) o = Transpose<perm = [0, 2, 1]>(k) kf = Reshape(o, flat) ", True),
    ],
)  # fmt: skip
def test_factors_of_a_product_that_sums_over_experts_and_features(fused, small, factors, is_found):
    body = FLAT_GIVEN + IN_ROWS.format(up="MatMul(x, up)") + factors + "y = MatMul(kf, down)"
    assert ("TopK" in fused(SelectExperts(small), body, FLAT, Y)) is is_found


ONE_TOKEN = "float[1,4] x, int64[1,2] i, float[1,2] v, float[8,4,3] u, float[8,3,4] d, float[2,8] dense"
MADE_OF_ONE = UP + "r = Relu(h) " + DOWN


@pytest.mark.parametrize(
    ("end", "output", "is_found"),
    [
        ("mt = Squeeze(m, a1) y = MatMul(s, mt)", "float[1,4] y", True),
        ("mt = Squeeze(m, a1) mm = Transpose<perm = [1, 0]>(mt) ss = Transpose<perm = [1, 0]>(s) y = MatMul(mm, ss)", "float[4,1] y", True),
        ("mt = Transpose<perm = [1, 0, 2]>(m) y = MatMul(s, mt)", "float[1,1,4] y", True),
        ("mt = Squeeze(m, a1) y = MatMul(dense, mt)", "float[2,4] y", False),
        ("mt = Squeeze(m, a1) s8 = Squeeze(s, a0) y = MatMul(s8, mt)", "float[4] y", False),
        ("q = Mul(su, m) y = ReduceSum<keepdims = 0>(q, a0)", "float[1,4] y", True),
    ],
)  # fmt: skip
def test_one_token(fused, small, end, output, is_found):
    assert ("TopK" in fused(SelectExperts(small), CONSTANTS + GATES + MADE_OF_ONE + end, ONE_TOKEN, output)) is is_found


#: Tokens along two axes.
TWO_AXES = "float[2,T,4] x, int64[2,T,2] i, float[2,T,2] v, float[8,1,4,3] u, float[8,1,3,4] d, float[8,2,1,4] by_row, float[8,2,T,4] by_all"
TWO_GATES = """iu = Unsqueeze(i, a3) eq = Equal(iu, n) c = Cast<to = 1>(eq) vu = Unsqueeze(v, a3) p = Mul(c, vu) s = ReduceSum<keepdims = 0>(p, a2)
    st = Transpose<perm = [2, 0, 1]>(s) su = Unsqueeze(st, a3) """


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("m = MatMul(r, d)", True), ("k = MatMul(r, d) m = Mul(k, by_all)", True), ("k = MatMul(r, d) m = Mul(k, by_row)", False),
        ("k = MatMul(r, d) o = Neg(k) m = Add(o, xu)", True),
        ("xt = Transpose<perm = [1, 0, 2]>(x) k = MatMul(r, d) o = Transpose<perm = [0, 2, 1, 3]>(k) l = Add(o, xt) m = Transpose<perm = [0, 2, 1, 3]>(l)", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "end",
    ["q = Mul(su, m) y = ReduceSum<keepdims = 0>(q, a0)",
     "g = Unsqueeze(s, a2) mt = Transpose<perm = [1, 2, 0, 3]>(m) q = MatMul(g, mt) y = Squeeze(q, a2)"],
)  # fmt: skip
def test_tokens_along_two_axes(fused, small, made, is_found, end):
    body = CONSTANTS + TWO_GATES + UP + "r = Relu(h) " + made + " " + end
    assert ("TopK" in fused(SelectExperts(small), body, TWO_AXES, "float[2,T,4] y")) is is_found


@pytest.mark.parametrize(
    ("attributes", "step", "is_found"),
    [
        ("", "sum = Add(total, term)", True), ("", "sum = Add(term, total)", True), ("", "sum = Sub(total, term)", False), ("", "sum = Add(term, term)", False), ("", "sum = Max(total, term)", False),
        ("scan_input_axes = [0], ", "sum = Add(total, term)", False),
    ],
)  # fmt: skip
def test_a_scan_that_adds_one_expert_after_another(fused, small, attributes, step, is_found):
    scan = f"y = Scan<{attributes}num_scan_inputs = 1, body = add (float[T,4] total, float[T,4] term) => (float[T,4] sum) {{ {step} }}>(start, q)"
    body = CONSTANTS + GATES + UP + "r = Relu(h) " + DOWN + "q = Mul(su, m) " + scan
    assert ("TopK" in fused(SelectExperts(small), body, X + ", float[T,4] start", Y)) is is_found
