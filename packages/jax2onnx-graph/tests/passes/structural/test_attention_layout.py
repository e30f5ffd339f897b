"""`Attention` on keys and values that have their heads first."""

from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.attention_layout import AttentionLayout

MERGED = """m = Constant<value = int64[3] {0, 0, 8}>() k = Neg(x) kt = Transpose<perm = [0,2,1,3]>(k) k3 = Reshape(kt, m)
    xt = Transpose<perm = [0,2,1,3]>(x) v3 = Reshape(xt, m)"""
HEADS_FIRST = ("float[B,2,T,4] x", "float[B,T,8] y")


def test_keys_and_values_with_heads_first_are_not_transposed(fused):
    body = "y = Attention<q_num_heads = 2, kv_num_heads = 2, scale = 0.3>(v3, k3, v3)"
    operators = fused(AttentionLayout(), MERGED + body, *HEADS_FIRST)
    assert operators == ["Neg", "Attention", "Transpose", "Reshape"]


def test_a_merged_query_is_transposed_instead(fused):
    body = "q = Neg(v3) y = Attention<q_num_heads = 2, kv_num_heads = 2, is_causal = 1>(q, k3, v3)"
    operators = fused(AttentionLayout(), MERGED + body, *HEADS_FIRST)
    assert operators.count("Transpose") == 3  # one of them that of the values, here the query too
    assert operators[-3:] == ["Attention", "Transpose", "Reshape"]


@pytest.mark.parametrize(("heads", "width"), [(2, 4), (4, 2), (8, 1), (1, 8)])
@pytest.mark.parametrize("query", ["v3", "q"])
def test_heads_that_are_not_those_of_the_attention_stay(fused, heads, width, query):
    body = f"q = Neg(v3) y = Attention<q_num_heads = 4, kv_num_heads = 4, scale = 0.3>({query}, k3, v3)"
    operators = fused(AttentionLayout(), MERGED + body, f"float[B,{heads},T,{width}] x", "float[B,T,8] y")
    assert (operators[-1] == "Reshape") is (heads == 4)


def test_a_query_with_other_heads_is_transposed(fused):
    body = """n = Constant<value = int64[3] {0, 0, 16}>() zt = Transpose<perm = [0,2,1,3]>(z) q = Reshape(zt, n)
        y = Attention<q_num_heads = 4, kv_num_heads = 2, scale = 0.3>(q, k3, v3)"""
    operators = fused(AttentionLayout(), MERGED + body, "float[B,2,T,4] x, float[B,2,T,8] z", "float[B,T,16] y")
    assert operators.count("Transpose") == 3


def test_merged_keys_stay(fused):
    body = "y = Attention<q_num_heads = 2, kv_num_heads = 2>(x, x, x)"
    assert fused(AttentionLayout(), body, "float[B,5,8] x") == ["Attention"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "n = Neg(v3) y = Attention<q_num_heads = 2, kv_num_heads = 2>(v3, k3, n)",
            "the keys have their heads first, and the values have not",
        ),
        (
            "n = Neg(v3) y = Attention<q_num_heads = 2, kv_num_heads = 2>(v3, n, v3)",
            "the values have their heads first, and the keys have not",
        ),
        (
            "y, a, b = Attention<q_num_heads = 2, kv_num_heads = 2>(v3, k3, v3, , x, x) u = Neg(a) w = Neg(b)",
            "it has a past or further results",
        ),
    ],
)
def test_reasons(declined, body, reason):
    more = ", float[B,2,S,4] u, float[B,2,S,4] w" if "past" in reason else ""
    assert declined(AttentionLayout(), MERGED + body, HEADS_FIRST[0], HEADS_FIRST[1] + more) == [reason]


def test_merged_keys_have_no_reason(declined):
    body = "y = Attention<q_num_heads = 2, kv_num_heads = 2>(x, x, x)"
    assert declined(AttentionLayout(), body, "float[B,5,8] x") == []
