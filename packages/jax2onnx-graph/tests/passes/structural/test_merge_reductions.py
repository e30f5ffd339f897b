from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.merge_reductions import MergeReductions

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
AXES = "int64[1] zero = {0}, int64[1] one = {1}, int64[2] both = {0, 1}, int64[2] turned = {1, 0}, int64[3] shape = {0, 1, 4}"


def rewritten(rewrite, inputs: str, outputs: str, body: str) -> list[str]:
    return rewrite(MergeReductions(), f"{HEAD}g ({inputs}) => ({outputs}) <{AXES}> {{ {body} }}", tolerance=1e-5)


@pytest.mark.parametrize("view", ["Unsqueeze(r, one)", "Reshape(r, shape)"])
@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp"])
def test_axes_that_are_put_back_are_kept(rewrite, reduction, view):
    body = f"r = {reduction}<keepdims = 0>(x, one) y = {view}"
    assert rewritten(rewrite, "float[N,3,4] x", "float[N,1,4] y", body) == [f"{reduction}(x, [1])"]


def test_positions_of_extrema_keep_their_axis(rewrite):
    body = "r = ArgMax<axis = 1, keepdims = 0>(x) y = Unsqueeze(r, one)"
    assert rewritten(rewrite, "float[N,3] x", "int64[N,1] y", body) == ["ArgMax{1}(x)"]


def test_all_axes(rewrite):
    body = "r = ReduceSum<keepdims = 0>(x) y = Unsqueeze(r, both)"
    assert rewritten(rewrite, "float[N,3] x", "float[1,1] y", body) == ["ReduceSum(x)"]


@pytest.mark.parametrize(
    "body",
    [
        "r = ReduceSum<keepdims = 0>(x, one) y = Unsqueeze(r, zero)",  # at another place
        "r = ReduceSum<keepdims = 0>(x, one) y = Unsqueeze(r, one) z = Relu(r)",  # another reader
        "r = ReduceSum<keepdims = 0>(x, a) y = Unsqueeze(r, one)",  # axes that are not known
    ],
)
def test_other_views_stay(rewrite, body):
    outputs = "float[N,1] y, float[N] z" if "z =" in body else "float[A,B] y"
    assert any(
        "Unsqueeze" in result
        for result in rewritten(
            rewrite, "float[N,N] x, int64[1] a" if "(x, a)" in body else "float[N,N] x", outputs, body
        )
    )


@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
def test_a_reduction_of_a_reduction_is_one(rewrite, reduction):
    body = f"r = {reduction}<keepdims = 0>(x, one) y = {reduction}<keepdims = 0>(r, one)"
    assert rewritten(rewrite, "float[N,3,4] x", "float[N] y", body) == [f"{reduction}{{0}}(x, [1, 2])"]


def test_axes_that_are_kept_count(rewrite):
    body = "r = ReduceSum(x, one) y = ReduceSum(r, zero)"
    assert rewritten(rewrite, "float[N,3,4] x", "float[1,1,4] y", body) == ["ReduceSum(x, [0, 1])"]


@pytest.mark.parametrize(
    "body",
    [
        "r = ReduceSum<keepdims = 0>(x, one) y = ReduceMax<keepdims = 0>(r, one)",
        "r = ReduceSum(x, one) y = ReduceSum<keepdims = 0>(r, both)",
        "r = ReduceL2<keepdims = 0>(x, one) y = ReduceL2<keepdims = 0>(r, one)",
    ],
)
def test_other_reductions_stay_apart(rewrite, body):
    (result,) = rewritten(rewrite, "float[N,3,4] x", "float[A] y", body)
    assert result.count("Reduce") == 2


@pytest.mark.parametrize("reduction", ["ReduceSum<keepdims = 0>(s)", "ReduceSum<keepdims = 0>(s, turned)"])
def test_the_sum_of_all_squares_is_one_operator(rewrite, reduction):
    body = f"s = Mul(x, x) y = {reduction}"
    assert rewritten(rewrite, "float[N,3] x", "float[] y", body) == ["ReduceSumSquare{0}(x)"]


@pytest.mark.parametrize(
    "body",
    [
        "s = Mul(x, x) y = ReduceSum<keepdims = 0>(s, one)",  # along an axis
        "s = Mul(x, z) y = ReduceSum<keepdims = 0>(s)",  # no squares
        "s = Mul(x, x) y = ReduceSum<keepdims = 0>(s) t = Relu(s)",  # another reader
        "s = Mul(x, x) y = ReduceMax<keepdims = 0>(s)",
    ],
)
def test_other_squares_stay(rewrite, body):
    outputs = ("float[N] y" if "one" in body else "float[] y") + (", float[N,3] t" if "t =" in body else "")
    assert not any("SumSquare" in node for node in rewritten(rewrite, "float[N,3] x, float[N,3] z", outputs, body))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("r = ReduceMax<axes = [1]>(x) y = ReduceMax<axes = [0]>(r)", "ReduceMax{[0,]}(ReduceMax{[1,]}(x))"),
        ("r = ReduceMax<axes = [0, 1], keepdims = 0>(x) y = Unsqueeze(r, both)", "Unsqueeze(ReduceMax{[0, 1], 0}(x), [0, 1])"),
    ],
)  # fmt: skip
def test_reductions_of_opset_17_whose_axes_are_attributes_stay(rewrite, body, expected):
    text = f"{HEAD.replace('20', '17')}g (float[N,3,4] x) => (float[1,1,4] y) <{AXES}> {{ {body} }}"
    assert rewrite(MergeReductions(), text) == [expected]
