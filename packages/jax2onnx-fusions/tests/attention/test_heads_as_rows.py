"""The query heads of one key head as queries of it."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.attention.heads_as_rows import HeadsAsRows
from jax2onnx_graph.forms import Form

# 8 query heads and 2 key heads of 3 features, 5 keys.
HEADS_FIRST = ("float[B,8,1,3] q, float[B,2,5,3] k, {} m", "float[B,8,1,3] y")
MERGED = ("float[B,1,24] q, float[B,5,6] k, {} m", "float[B,1,24] y")


@pytest.fixture
def rows(limited) -> HeadsAsRows:
    """The pass, for a target that prefers rows."""
    return HeadsAsRows(limited(avoided={Form.HEADS}))


@pytest.mark.parametrize("mask", ["bool[1,5]", "float[1,5]", "bool[B,1,1,5]", "float[1,1,1,5]"])
def test_heads_of_one_query_become_rows(fused, rows, mask):
    operators = fused(rows, "y = Attention<softcap = 2.0>(q, k, k, m)", HEADS_FIRST[0].format(mask), HEADS_FIRST[1])
    assert operators == ["Expand", "Reshape", "Attention", "Reshape"]


@pytest.mark.parametrize("mask", ["bool[8,1,5]", "float[B,8,1,5]"])
def test_heads_of_the_mask_become_rows(fused, rows, mask):
    operators = fused(rows, "y = Attention<scale = 0.3>(q, k, k, m)", HEADS_FIRST[0].format(mask), HEADS_FIRST[1])
    assert operators == ["Reshape", "Reshape", "Attention", "Reshape"]


def test_merged_heads_become_rows(fused, rows):
    body = "y = Attention<q_num_heads = 8, kv_num_heads = 2>(q, k, k, m)"
    operators = fused(rows, body, MERGED[0].format("bool[1,5]"), MERGED[1])
    assert operators == ["Expand", "Reshape", "Transpose", "Reshape", "Attention", "Reshape", "Transpose", "Reshape"]


def test_calls_with_one_mask_share_its_repetition(fused, rows):
    body = "h = Attention(q, k, k, m) y = Attention(h, k, k, m)"
    operators = fused(rows, body, HEADS_FIRST[0].format("bool[1,5]"), HEADS_FIRST[1])
    assert operators.count("Expand") == 1
    assert operators.count("Attention") == 2


@pytest.mark.parametrize(
    ("body", "inputs", "output"),
    [
        ("y = Attention(q, k, k)", "float[B,8,2,3] q, float[B,2,5,3] k", "float[B,8,2,3] y"),
        ("y = Attention(q, k, k)", "float[B,8,T,3] q, float[B,2,5,3] k", "float[B,8,T,3] y"),
        ("y = Attention(q, k, k)", "float[B,6,1,3] q, float[B,2,5,3] k", "float[B,6,1,3] y"),
        ("y = Attention<is_causal = 1>(q, k, k)", "float[B,8,1,3] q, float[B,2,5,3] k", "float[B,8,1,3] y"),
        ("y = Attention(q, k, k, m)", "float[B,8,1,3] q, float[B,2,S,3] k, bool[8,1,S] m", "float[B,8,1,3] y"),
    ],
)
def test_other_attention_stays(fused, rows, body, inputs, output):
    assert fused(rows, body, inputs, output) == ["Attention"]


def test_a_target_without_a_preference_keeps_heads(fused, limited):
    attention = fused(
        HeadsAsRows(limited()), "y = Attention(q, k, k)", "float[B,8,1,3] q, float[B,2,5,3] k", "float[B,8,1,3] y"
    )
    assert attention == ["Attention"]


@pytest.mark.parametrize(
    ("body", "inputs", "reason"),
    [
        (
            "y = Attention(q, k, k)",
            "float[B,6,1,3] q, float[B,2,5,3] k",
            "only 3 query heads share a key head, and 4 are needed to gain time",
        ),
        ("y = Attention<is_causal = 1>(q, k, k)", "float[B,8,1,3] q, float[B,2,5,3] k", "it has a causal mask"),
        (
            "y, a, b = Attention(q, k, k, , k, k)",
            "float[B,8,1,3] q, float[B,2,5,3] k",
            "it has a past or further results",
        ),
        (
            "y = Attention(q, k, k, m)",
            "float[B,8,1,3] q, float[B,2,S,3] k, bool[8,1,S] m",
            "the mask has other heads than the queries, or differs by head and has a symbolic length",
        ),
    ],
)
def test_reasons(declined, rows, body, inputs, reason):
    output = "float[B,6,1,3] y" if "6" in inputs else "float[B,8,1,3] y"
    more = ", float[B,2,10,3] a, float[B,2,10,3] b" if "past" in reason else ""
    assert declined(rows, body, inputs, output + more) == [reason]


def test_as_many_key_heads_as_query_heads_have_no_reason(declined, rows):
    assert declined(rows, "y = Attention(q, k, k)", "float[B,2,1,3] q, float[B,2,5,3] k", "float[B,2,1,3] y") == []
