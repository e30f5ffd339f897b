"""Bounds on the gates of experts with a capacity, by the operators that make them."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._capacity_slots import CombinedSlots, combined_slots
from jax2onnx_fusions.experts._sparsity import Sparsity, Validity

#: Of 2 tokens, 4 experts of 3 slots: one-hots of experts [2, 4, 1] and of slots [2, 1, 3], both for each of 5 choices, and numbers.
HEAD = """<ir_version: 10, opset_import: ["" : 23]>
    g (int64[2,1,1] i, int64[2,1,1] j, int64[5,2,1,1] is, int64[5,2,1,1] js, int64[2,4,2,1] k, int64[2,1,1] l, float[2,4,3] v, float[2,1,3] row, float[4,3,5] made,
       bool[2,4,3] mask, int64[N,2,1,1] ns) => (float[2,5] y) {
    e = Constant<value = int64[4,1] {0, 1, 2, 3}>() c = Constant<value = int64[3] {0, 1, 2}>() c2 = Constant<value = int64[2,3] {0, 1, 2, 0, 1, 2}>()
    none = Constant<value = float {0}>() half = Constant<value = float {0.5}>() a0 = Constant<value = int64[1] {0}>() a3 = Constant<value = int64[1] {3}>()
    flat = Constant<value = int64[2] {2, 12}>() rows = Constant<value = int64[2] {12, 5}>() m = Reshape(made, rows)
    ie = Equal(i, e) ei = Cast<to = 1>(ie) jc = Equal(j, c) cj = Cast<to = 1>(jc) """
END = " g = Reshape(p, flat) y = MatMul(g, m) }"
TABLES = "ies = Equal(is, e) eis = Cast<to = 1>(ies) jcs = Equal(js, c) cjs = Cast<to = 1>(jcs) ps = Mul(eis, cjs) "


def slots(body: str) -> CombinedSlots | None:
    """The sum over slots that the last product is."""
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEAD + body + END))
    node = ir.from_proto(model).graph.outputs[0].producer()
    assert node is not None
    return combined_slots(node)


@pytest.mark.parametrize(
    ("gates", "bound"),
    [
        ("p = Mul(ei, cj)", 1), ("p = Mul(cj, ei)", 1), ("p = MatMul(ei, cj)", 1), ("b = And(ie, jc) p = Cast<to = 1>(b)", 1),
        ("q = Mul(ei, cj) p = Mul(q, v)", 1), ("q = Mul(ei, cj) p = Mul(v, q)", 1), ("q = Mul(ei, row) p = Mul(cj, q)", None),
        ("q = Mul(ei, cj) b = Greater(q, none) p = Cast<to = 1>(b)", 1), ("q = Mul(ei, cj) n = Neg(q) r = Abs(n) p = Sqrt(r)", 1),
        # One of two choices for each token, or of five tables.
        (TABLES + "p = ReduceSum<keepdims = 0>(ps, a0)", 5), (TABLES + "p = ReduceMax<keepdims = 0>(ps, a0)", 5),
        (TABLES + "q = ReduceSum<keepdims = 0>(ps, a0) r = Mul(ei, cj) p = Mul(q, r)", 1),
        ("t = Squeeze(i, a0) p = Mul(ei, v)", None), ("p = Mul(v, row)", None), ("p = Mul(ei, row)", None), ("p = Mul(cj, v)", None),
        ("p = Add(ei, cj)", None), ("p = Sub(v, v)", None), ("q = Mul(ei, cj) p = Add(q, v)", None), ("q = Mul(ei, cj) p = Exp(q)", None),
        ("q = Mul(ei, cj) b = Greater(none, q) p = Cast<to = 1>(b)", 1), ("q = Mul(ei, cj) b = Greater(q, half) p = Cast<to = 1>(b)", 1),
        ("q = Mul(ei, cj) b = Less(q, half) p = Cast<to = 1>(b)", None), ("p = Cast<to = 1>(mask)", None),
        ("b = And(ie, mask) p = Cast<to = 1>(b)", None), ("b = Or(ie, jc) p = Cast<to = 1>(b)", None),
        ("ies = Equal(ns, e) eis = Cast<to = 1>(ies) ps = Mul(eis, cj) p = ReduceSum<keepdims = 0>(ps, a0)", None),
        # Two choices of an expert, each with any slot of the two: the sum of products of one-hots.
        ("ke = Equal(k, c2) s = Cast<to = 1>(ke) z = Unsqueeze(ei, a3) w = Mul(z, s) p = ReduceSum<keepdims = 0>(w, a3)", None),
    ],
)  # fmt: skip
def test_bounds(gates, bound):
    found = slots(gates)
    assert (None if found is None else found.sparsity.bound) == bound


def test_a_product_that_sums_over_choices_has_as_many_elements():
    body = """kc = Constant<value = int64[4,1] {0, 1, 2, 3}>() two = Constant<value = int64[3] {2, 1, 2}>() two_down = Constant<value = int64[3] {2, 2, 1}>()
        h = Expand(i, two) he = Equal(h, kc) left = Cast<to = 1>(he) w = Expand(j, two_down) wc = Equal(w, c) right = Cast<to = 1>(wc)
        p = MatMul(left, right)"""
    found = slots(body)
    assert found is not None
    assert found.sparsity == Sparsity(2, Validity.IF_FINITE)


@pytest.mark.parametrize("product", ["Mul", "MatMul"])
def test_a_bound_on_average_stays_one_in_a_product(product):
    body = """z0 = Constant<value = int64[2] {2, 4}>() z = Expand(none, z0) t = Constant<value = int64[2,2] {0, 1, 0, 3}>() o = Constant<value = float[2] {1, 1}>()
        s = ScatterND(z, t, o) a2 = Constant<value = int64[1] {2}>() x = Unsqueeze(s, a2) """
    found = slots(body + f"p = {product}(x, cj)")
    assert found is not None
    assert found.sparsity == Sparsity(1, Validity.ON_AVERAGE)


def test_the_numbers_of_experts_and_slots():
    found = slots("p = Mul(ei, cj)")
    assert found is not None
    assert (found.experts, found.capacity, found.count) == (4, 3, 12)
    assert (found.sizes.tokens, found.sizes.experts) == ((3,), 4)
