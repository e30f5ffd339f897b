"""The gates that a value has as a factor, wherever they are multiplied, and values that gates do not make zero."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes
from jax2onnx_fusions.experts._gate_factors import gate_factor
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import dims_of
from onnx_ir.passes.common import ShapeInferencePass

#: Gates s of 6 tokens and 8 experts, of which two are other than zero; sb are those as booleans, su has an axis of features, and sh is a product with it.
HEAD = """n = Constant<value = int64[8] {0, 1, 2, 3, 4, 5, 6, 7}>() a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>()
    a2 = Constant<value = int64[1] {2}>() zero = Constant<value = float {0}>() one = Constant<value = float {1}>()
    grouped = Constant<value = int64[3] {6, 4, 2}>()
    iu = Unsqueeze(i, a2) eq = Equal(iu, n) c = Cast<to = 1>(eq) p = ReduceMax<keepdims = 0>(c, a1)
    s = Mul(p, v) sb = Cast<to = 9>(s) su = Unsqueeze(s, a2) sbu = Unsqueeze(sb, a2) sh = Mul(su, h) """
INPUTS = "int64[6,2] i, float[6,1] v, float[6,8] w, float[6,8,3] h, bool[6,8] m, float[3,3] d, float[6,8,F] some, float[2,6,8] two, float[2,6,8,3] wide, float[8,3] one_row, bool[6,8,3] mh"


def gates_of(body: str, tokens: tuple[int, ...] = (0,), expert: int = 1) -> tuple[str, tuple[int, ...]] | None:
    """The name of the gates that y has as a factor, and their axes."""
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({INPUTS}) => (y) {{ {HEAD} {body} }}'
    (y,) = ShapeInferencePass()(ir.from_onnx_text(text)).model.graph.outputs
    dims = dims_of(y) or ()
    sizes = Sizes(tuple(dims[axis] for axis in tokens), 8)
    found = gate_factor(y, ExpertAxes(tuple(map(SubAxis, tokens)), SubAxis(expert)), sizes)
    return None if found is None else (str(found.value.name), found.axes)


@pytest.mark.parametrize(
    ("body", "gates"),
    [
        ("y = Mul(su, h)", "su"), ("k = Mul(some, su) y = Neg(k)", "su"), ("y = Mul(h, su)", "su"), ("y = Mul(h, sh)", "su"), ("k = Mul(su, h) y = Neg(k)", "su"), ("y = Div(su, h)", "su"),
        ("k = Mul(h, su) y = MatMul(k, d)", "su"), ("k = Mul(h, su) y = Relu(k)", "su"), ("k = Mul(h, su) y = Abs(k)", "su"), ("y = Where(mh, sh, zero)", "su"),
        ("y = Where(sbu, h, zero)", "sbu"), ("y = Where(mh, sh, h)", None), ("y = Where(mh, h, sh)", None), ("y = Where(mh, sh, one)", None),
        ("y = Where(sbu, zero, h)", None), ("y = Where(sbu, h, h)", None), ("y = Div(h, su)", None), ("y = Add(su, h)", None), ("y = Sub(h, su)", None),
        ("y = Max(su, h)", None), ("y = Pow(h, su)", None), ("k = Mul(su, h) y = Exp(k)", None), ("k = Mul(su, h) y = Add(k, h)", None),
        ("k = Mul(su, h) y = Softmax(k)", None), ("y = Mul(h, h)", None), ("k = Unsqueeze(w, a2) y = Mul(k, h)", None),
        ("k = Mul(sh, h) y = Clip(k, one)", None), ("y = Clip(h, zero)", None), ("k = Mul(w, s) ku = Unsqueeze(k, a2) y = Mul(ku, h)", "ku"),
    ],
)  # fmt: skip
def test_factors_with_features(body, gates):
    assert gates_of(body) == (gates and (gates, (0, 1)))


@pytest.mark.parametrize(
    ("body", "tokens", "expert", "found"),
    [
        ("k = Transpose<perm = [1, 0]>(s) y = Neg(k)", 1, 0, ("k", (1, 0))),
        ("k = Mul(h, su) y = Transpose<perm = [2, 1, 0]>(k)", 2, 1, ("su", (0, 1))),
        ("k = Mul(h, su) y = Transpose<perm = [1, 0, 2]>(k)", 1, 0, ("su", (0, 1))),
        # Axes that are exchanged, or one of which is no axis of the gates.
        ("y = Mul(h, su)", 1, 0, None), ("y = Mul(h, su)", 0, 2, None), ("y = Mul(h, su)", 2, 1, None),
        ("k = ReduceMax(su, a1) y = Mul(k, h)", 0, 1, None), ("k = ReduceMax(su, a0) y = Mul(k, h)", 0, 1, None),
        # A group of experts.
        ("y = Reshape(s, grouped)", 0, 1, None),
    ],
)  # fmt: skip
def test_factors_of_other_arrangements(body, tokens, expert, found):
    assert gates_of(body, (tokens,), expert) == found


ONE_HOT = "number = Constant<value = int64 {5}>() o = Equal(n, number) g = Cast<to = 1>(o) gu = Unsqueeze(g, a1) "


@pytest.mark.parametrize(
    ("body", "tokens", "expert", "found"),
    [
        ("y = Mul(gu, one_row)", (), 0, ("gu", (0,))), ("y = Mul(one_row, one_row)", (), 0, None),
        ("k = Mul(two, s) ku = Unsqueeze(k, a3) y = Mul(ku, wide)", (0, 1), 2, ("ku", (0, 1, 2))),
        ("ku = Unsqueeze(two, a3) y = Mul(ku, wide)", (0, 1), 2, None), ("y = Mul(su, wide)", (0, 1), 2, None),
    ],
)  # fmt: skip
def test_factors_of_one_token_and_of_tokens_along_two_axes(body, tokens, expert, found):
    assert gates_of(ONE_HOT + "a3 = Constant<value = int64[1] {3}>() " + body, tokens, expert) == found


@pytest.mark.parametrize(("count", "is_found"), [(23, True), (24, False)])
def test_a_factor_is_looked_for_behind_a_number_of_nodes(count, is_found):
    chain = " ".join(f"t{i + 1} = Neg(t{i})" for i in range(count - 1))
    assert (gates_of(f"t0 = Mul(h, su) {chain} y = Neg(t{count - 1})") is not None) is is_found


def test_an_operator_of_another_domain_makes_no_factor():
    text = f'<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g ({INPUTS}) => (float[6,8,3] y) {{ {HEAD} y = own.Mul(su, h) }}'
    (y,) = ShapeInferencePass()(ir.from_onnx_text(text)).model.graph.outputs
    assert gate_factor(y, ExpertAxes((SubAxis(0),), SubAxis(1)), Sizes((6,), 8)) is None
