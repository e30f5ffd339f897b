"""Masks whose rows hide all keys by minus infinity, for a target that gives zeros there."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.fully_masked_rows import FullyMaskedRowsPass
from onnx_ir.passes.common import ShapeInferencePass

HEAD = '<ir_version: 10, opset_import: ["" : 23]>'


def operators(target, mask: str, *, count: int = 1) -> list[str]:
    calls = "\n".join(f"y{i} = Attention(q, k, k, m)" for i in range(count))
    text = f"""{HEAD} g (float[1,2,2,4] q, float[1,2,3,4] k, bool[1,1,2,3] seen, float[1,1,2,3] z) => (float[1,2,2,4] y0) {{
        zero = Constant<value = float {{0}}>() inf = Constant<value = float {{-inf}}>() low = Constant<value = float {{-1e9}}>()
        {mask} {calls} }}"""
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    FullyMaskedRowsPass(target)(model)
    return [node.op_type for node in model.graph if node.op_type != "Constant"]


@pytest.fixture
def target(limited):
    return limited(lost={("Attention", "inf")})


@pytest.mark.parametrize(
    "mask",
    [
        "m = Where(seen, zero, inf)",
        "a = Where(seen, zero, inf) m = Add(a, low)",
        "m = Identity(z)",
        "m = Where(seen, zero, z)",
        "a = Where(seen, zero, inf) m = Div(a, low)",
        "a = Where(seen, zero, low) m = Div(a, zero)",
        "a = Where(seen, zero, low) m = Div(low, a)",
        "a = Cast<to = 1>(seen) m = Log(a)",
        "a = Where(seen, zero, inf) b = Neg(a) m = Neg(b)",
        "a = Where(seen, zero, inf) m = Min(a, zero)",
    ],
)
def test_rows_of_minus_infinity_become_nan(target, mask):
    assert operators(target, mask)[-4:] == ["ReduceMax", "Equal", "Where", "Attention"]


@pytest.mark.parametrize(
    "mask",
    [
        "m = Where(seen, zero, low)",
        "a = Where(seen, zero, low) m = Div(a, low)",
        "a = Cast<to = 1>(seen) b = Sub(a, low) m = Mul(b, low)",
        "a = Tanh(z) m = Neg(a)",
        "t = Transpose<perm = [0, 1, 3, 2]>(k) a = MatMul(q, t) m = Floor(a)",
        "m = Constant<value = float[1,1,2,3] {0, -inf, -inf, 0, 0, -inf}>()",
    ],
)
def test_masks_without_such_a_row_stay(target, mask):
    assert "ReduceMax" not in operators(target, mask)


def test_a_constant_row_of_minus_infinity_becomes_nan(target):
    assert "ReduceMax" in operators(target, "m = Constant<value = float[1,1,2,3] {0, 0, 0, -inf, -inf, -inf}>()")


def test_attentions_with_one_mask_share_the_new_one(target):
    assert operators(target, "m = Where(seen, zero, inf)", count=2).count("ReduceMax") == 1


def test_a_target_that_gives_nan_needs_nothing(limited):
    assert operators(limited(), "m = Where(seen, zero, inf)") == ["Where", "Attention"]
