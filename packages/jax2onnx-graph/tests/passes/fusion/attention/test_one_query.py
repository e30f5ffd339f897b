"""The query heads of one key head as queries of it."""

from __future__ import annotations

import pytest
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.passes.fusion.attention.heads_as_rows import HeadsAsRows

# 8 query heads and 2 key heads of 3 features, 5 keys.
HEADS_FIRST = ("float[B,8,1,3] q, float[B,2,5,3] k, {} m", "float[B,8,1,3] y")
MERGED = ("float[B,1,24] q, float[B,5,6] k, {} m", "float[B,1,24] y")


@pytest.fixture
def rows(limited) -> HeadsAsRows:
    """The pass, for a target that prefers rows."""
    return HeadsAsRows(limited(avoided={Form.HEADS}))


@pytest.mark.parametrize(("least", "made"), [(4, ["Reshape", "Attention", "Reshape"]), (5, ["Attention"])])
def test_the_target_says_how_many_heads_are_enough(recover, limited, least, made):
    target = limited(avoided={Form.HEADS}, thresholds={Threshold.SHARING_HEADS: least})
    x = "float[B,8,1,3] q, float[B,2,5,3] k"
    assert recover(HeadsAsRows(target), "y = Attention(q, k, k)", x, "float[B,8,1,3] y") == made


@pytest.mark.parametrize("mask", ["bool[1,5]", "float[1,5]", "bool[B,1,1,5]", "float[1,1,1,5]"])
def test_heads_of_one_query_become_rows(recover, rows, mask):
    operators = recover(rows, "y = Attention<softcap = 2.0>(q, k, k, m)", HEADS_FIRST[0].format(mask), HEADS_FIRST[1])
    assert operators == ["Expand", "Reshape", "Attention", "Reshape"]


@pytest.mark.parametrize("mask", ["bool[8,1,5]", "float[B,8,1,5]"])
def test_heads_of_the_mask_become_rows(recover, rows, mask):
    operators = recover(rows, "y = Attention<scale = 0.3>(q, k, k, m)", HEADS_FIRST[0].format(mask), HEADS_FIRST[1])
    assert operators == ["Reshape", "Reshape", "Attention", "Reshape"]


def test_merged_heads_become_rows(recover, rows):
    body = "y = Attention<q_num_heads = 8, kv_num_heads = 2>(q, k, k, m)"
    operators = recover(rows, body, MERGED[0].format("bool[1,5]"), MERGED[1])
    assert operators == ["Expand", "Reshape", "Transpose", "Reshape", "Attention", "Reshape", "Transpose", "Reshape"]


def test_calls_with_one_mask_share_its_repetition(recover, rows):
    body = "h = Attention(q, k, k, m) y = Attention(h, k, k, m)"
    operators = recover(rows, body, HEADS_FIRST[0].format("bool[1,5]"), HEADS_FIRST[1])
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
def test_other_attention_stays(recover, rows, body, inputs, output):
    assert recover(rows, body, inputs, output) == ["Attention"]


def test_a_target_without_a_preference_keeps_heads(recover, limited):
    attention = recover(
        HeadsAsRows(limited()), "y = Attention(q, k, k)", "float[B,8,1,3] q, float[B,2,5,3] k", "float[B,8,1,3] y"
    )
    assert attention == ["Attention"]
