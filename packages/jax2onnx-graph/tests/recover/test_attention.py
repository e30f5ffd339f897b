"""Attention in all spellings, and its layouts."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph.passes.recover.attention import RecoverAttention

QKV = """
    s = Constant<value = float {0.35}>() low = Constant<value = float {-1000000000.0}>()
    one = Constant<value = float {1}>() big = Constant<value = float {2}>()
    q = Mul(x, x) v = Add(x, x) qt = Transpose<perm = [0,2,1,3]>(q) kt = Transpose<perm = [0,2,3,1]>(x)
"""
PLAIN_END = (
    "p = Softmax<axis = -1>(l) vt = Transpose<perm = [0,2,1,3]>(v) o = MatMul(p, vt) y = Transpose<perm = [0,2,1,3]>(o)"
)
EINSUM_END = """p = Softmax<axis = -1>(l) vt = Transpose<perm = [0,2,3,1]>(v) pt = Transpose<perm = [0,1,3,2]>(p)
    o = MatMul(vt, pt) y = Transpose<perm = [0,3,1,2]>(o)"""
HEADS = ("float[B,T,2,4] x", "float[B,T,2,4] y")


@pytest.mark.parametrize("end", [PLAIN_END, EINSUM_END])
@pytest.mark.parametrize("logits", ["a = MatMul(qt, kt) l = Mul(a, s)", "qs = Mul(s, qt) l = MatMul(qs, kt)"])
def test_attention(recover, logits, end):
    operators = recover(RecoverAttention(), QKV + logits + end, *HEADS)
    assert operators == ["Mul", "Add", "Reshape", "Reshape", "Reshape", "Attention", "Reshape"]


HEADS_FIRST = """s = Constant<value = float {0.35}>() q = Mul(x, x) v = Add(x, x)
    kt = Transpose<perm = [0,1,3,2]>(x) a = MatMul(q, kt) l = Mul(a, s) p = Softmax<axis = -1>(l)"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("y = MatMul(p, v)", ["Attention"]),
        ("o = MatMul(p, v) y = Neg(o)", ["Attention", "Neg"]),
        (
            """vt = Transpose<perm = [0,1,3,2]>(v) pt = Transpose<perm = [0,1,3,2]>(p) o = MatMul(vt, pt)
            y = Transpose<perm = [0,1,3,2]>(o)""",
            ["Attention", "Transpose", "Transpose"],
        ),
    ],
)
def test_attention_on_keys_and_values_with_heads_first(recover, end, expected):
    """Caches of [B, N, S, H] are not transposed."""
    operators = recover(RecoverAttention(), HEADS_FIRST + end, "float[B,2,T,4] x", "float[B,2,T,4] y")
    assert operators == ["Mul", "Add", *expected]


def test_attention_of_one_query_whose_transposes_are_reshapes(recover):
    body = """shape = Constant<value = int64[4] {0, 2, 1, 4}>() column = Constant<value = int64[4] {0, 2, 5, 1}>()
        back = Constant<value = int64[4] {0, 1, 2, 4}>() one = Constant<value = int64[1] {1}>()
        first = Constant<value = int64[1] {0}>() s = Constant<value = float {0.35}>()
        x1 = Slice(x, first, one, one) q = Reshape(x1, shape) k = Transpose<perm = [0,2,3,1]>(x) a = MatMul(q, k)
        l = Mul(a, s) p = Softmax<axis = -1>(l) pt = Reshape(p, column) vt = Transpose<perm = [0,2,3,1]>(x)
        o = MatMul(vt, pt) y = Reshape(o, back)"""
    operators = recover(RecoverAttention(), body, "float[B,5,2,4] x", "float[B,1,2,4] y")
    assert "Attention" in operators
    assert "MatMul" not in operators


@pytest.mark.parametrize("where", ["l = Where(f, b, low)", "n = Not(f) l = Where(n, low, b)"])
def test_attention_with_a_mask_that_hides_whole_rows(recover, where):
    """The first query sees no key."""
    mask = """
        last = Constant<value = int64[1] {-1}>() m2 = Constant<value = int64[1] {-2}>()
        h = Constant<value = int64[2] {2, 3}>() zero = Constant<value = int64 {0}>() step = Constant<value = int64 {1}>()
        sh = Shape<start = 1, end = 2>(x) n0 = Squeeze(sh) t = Range(zero, n0, step)
        rows = Unsqueeze(t, last) cols = Unsqueeze(t, m2) f = Greater(rows, cols)
    """
    body = QKV + mask + "a = MatMul(qt, kt) b = Mul(a, s) " + where + " " + PLAIN_END
    operators = recover(RecoverAttention(), body, *HEADS)
    assert "Attention" in operators
    assert "Softmax" not in operators


def test_attention_with_a_bias_of_keys(recover):
    bias = """
        axes = Constant<value = int64[2] {2, 3}>() last = Constant<value = int64[1] {-1}>()
        c = ReduceSum<keepdims = 0>(x, axes) middle = Constant<value = int64[2] {1, 2}>() b = Unsqueeze(c, middle)
    """
    body = QKV + bias + "a = MatMul(qt, kt) as = Mul(a, s) l = Add(as, b) " + PLAIN_END
    operators = recover(RecoverAttention(), body, *HEADS)
    assert "Attention" in operators
    assert "Expand" in operators


def test_attention_whose_weights_are_read_stays(recover):
    body = (
        QKV
        + "l = MatMul(qt, kt) "
        + PLAIN_END.replace("y = Transpose", "z = Transpose")
        + (
            " all = Constant<value = int64[2] {2,3}>() k = ReduceSum(p, all) kk = Transpose<perm = [0,2,1,3]>(k) y = Add(z, kk)"
        )
    )
    assert "Attention" not in recover(RecoverAttention(), body, *HEADS)


def test_a_target_of_opset_18_gets_no_attention(recover, limited):
    body = QKV + "a = MatMul(qt, kt) l = Mul(a, s)" + PLAIN_END
    assert "Attention" not in recover(RecoverAttention(limited(opset=18)), body, *HEADS)


def test_a_target_that_attends_in_half_precision_alone_gets_no_attention_in_single(recover, limited):
    body = QKV + "a = MatMul(qt, kt) l = Mul(a, s)" + PLAIN_END
    assert "Attention" not in recover(RecoverAttention(limited(dtypes=[np.float16])), body, *HEADS)
