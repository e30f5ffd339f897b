"""Each recovery pass, on graphs as ONNX text: what it makes of them, that the values stay, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from jax2onnx_graph.passes.recover.fold_batch_norm import FoldBatchNorm
from jax2onnx_graph.passes.recover.fold_neutral import FoldNeutral
from jax2onnx_graph.passes.recover.recover_attention import RecoverAttention
from jax2onnx_graph.passes.recover.recover_gelu import RecoverGelu
from jax2onnx_graph.passes.recover.recover_layer_norm import RecoverLayerNorm
from jax2onnx_graph.passes.recover.recover_relu import RecoverRelu
from jax2onnx_graph.passes.recover.recover_rms_norm import RecoverRmsNorm
from jax2onnx_graph.passes.recover.recover_silu import RecoverSilu
from jax2onnx_graph.passes.recover.recover_softmax import RecoverSoftmax
from onnx_ir.passes.common import RemoveUnusedNodesPass

X = "float[B,5,8] x"


def model(body: str, signature: str = X, *, opset: int = 23, result: str = "float[B,5,8] y") -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> main ({signature}) => ({result}) {{ {body} }}'
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text), strict_mode=True)


def run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def rewritten(graph_pass: ir.passes.PassBase, before: onnx.ModelProto, shape: tuple[int, ...] = (3, 5, 8)) -> list[str]:
    """The operators after the pass, constants aside; the results must be those of before."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(before.graph.input[0].type.tensor_type.elem_type)
    feeds = {before.graph.input[0].name: np.random.default_rng(0).normal(1, 2, shape).astype(dtype)}
    expected = run(before, feeds)
    after = ir.from_proto(before)
    result = graph_pass(after)
    RemoveUnusedNodesPass()(after)
    proto = ir.to_proto(after)
    onnx.checker.check_model(proto, full_check=True)
    np.testing.assert_allclose(run(proto, feeds), expected, rtol=2e-5, atol=2e-6 * max(1.0, np.abs(expected).max()))
    operators = [node.op_type for node in after.graph if node.op_type != "Constant"]
    assert result.modified == (operators != [n.op_type for n in before.graph.node if n.op_type != "Constant"])
    return operators


TWO_MOMENTS = """
    last = Constant<value = int64[1] {-1}>() two = Constant<value = float {2}>() zero = Constant<value = float {0}>()
    eps = Constant<value = float {0.000001}>()
    m = ReduceMean(x, last) xx = Mul(x, x) mm = ReduceMean(xx, last) m2 = Mul(m, m)
    v = Sub(mm, m2) v0 = Max(v, zero) ve = Add(v0, eps) s = Sqrt(ve) d = Sub(x, m)
"""
CENTRED = """
    one = Constant<value = int64[1] {1}>() last = Constant<value = int64[1] {2}>() n = Constant<value = float {8}>()
    eps = Constant<value = float {0.000001}>() two = Constant<value = float {2}>()
    sum = ReduceSum<keepdims = 0>(x, last) mean = Div(sum, n) m = Unsqueeze(mean, last) d = Sub(x, m)
    dd = Pow(d, two) ss = ReduceSum<keepdims = 0>(dd, last) vv = Div(ss, n) v = Unsqueeze(vv, last)
    ve = Add(v, eps) s = Sqrt(ve)
"""
SCALE = "g = Constant<value = float[8] {1,2,3,4,5,6,7,8}>()"
BIAS = "b = Constant<value = float[1,1,8] {8,7,6,5,4,3,2,1}>()"


@pytest.mark.parametrize("statistics", [TWO_MOMENTS, CENTRED])
@pytest.mark.parametrize(
    "rest",
    [
        "y = Div(d, s)",
        "r = Reciprocal(s) y = Mul(r, d)",
        f"{SCALE} r = Reciprocal(s) f = Mul(r, g) y = Mul(d, f)",
        f"{SCALE} {BIAS} r = Reciprocal(s) f = Mul(r, g) z = Mul(d, f) y = Add(z, b)",
        f"{SCALE} {BIAS} n1 = Div(d, s) z = Mul(n1, g) y = Add(z, b)",
    ],
)
def test_layer_norm_in_all_spellings(statistics: str, rest: str) -> None:
    assert rewritten(RecoverLayerNorm(), model(statistics + rest)) == ["LayerNormalization"]


def test_layer_norm_over_another_axis_stays() -> None:
    other = TWO_MOMENTS.replace("{-1}", "{1}")
    assert "LayerNormalization" not in rewritten(RecoverLayerNorm(), model(other + "y = Div(d, s)"))


def test_layer_norm_with_misaligned_statistics_stays() -> None:
    body = CENTRED.replace("m = Unsqueeze(mean, last)", "lead = Constant<value = int64[1] {0}>() m = Unsqueeze(mean, lead)")
    body = body.replace("{8}", "{4}")
    before = model(body + "y = Div(d, s)", "float[4,4,4] x", result="float[4,4,4] y")
    assert "LayerNormalization" not in rewritten(RecoverLayerNorm(), before, (4, 4, 4))


RMS = """
    last = Constant<value = int64[1] {-1}>() eps = Constant<value = float {0.000001}>()
    xx = Mul(x, x) mm = ReduceMean(xx, last) me = Add(eps, mm) s = Sqrt(me)
"""


@pytest.mark.parametrize(
    "rest",
    [
        "y = Div(x, s)",
        f"{SCALE} r = Reciprocal(s) n = Mul(x, r) y = Mul(g, n)",
        f"{SCALE} r = Reciprocal(s) f = Mul(g, r) y = Mul(f, x)",
    ],
)
def test_rms_norm_in_all_spellings(rest: str) -> None:
    assert rewritten(RecoverRmsNorm(), model(RMS + rest)) == ["RMSNormalization"]


def test_rms_norm_needs_opset_23() -> None:
    assert "RMSNormalization" not in rewritten(RecoverRmsNorm(), model(RMS + "y = Div(x, s)", opset=22))


GELU_CONSTANTS = """
    half = Constant<value = float {0.5}>() one = Constant<value = float {1}>() three = Constant<value = float {3}>()
    a = Constant<value = float {0.044715}>() c = Constant<value = float {0.7978845834732056}>()
    q = Constant<value = float {1.41421354}>() h = Constant<value = float {0.70710677}>()
"""


@pytest.mark.parametrize(
    "body",
    [
        "v = Div(x, q) e = Erf(v) w = Add(e, one) z = Mul(x, w) y = Mul(z, half)",
        "v = Mul(h, x) e = Erf(v) w = Add(one, e) z = Mul(half, x) y = Mul(z, w)",
        "n = Neg(x) v = Mul(n, h) e = Erf(v) w = Sub(one, e) z = Mul(half, x) y = Mul(z, w)",
        "p = Pow(x, three) k = Mul(a, p) t = Add(x, k) u = Mul(c, t) e = Tanh(u) w = Add(one, e) z = Mul(half, w) "
        "y = Mul(x, z)",
        "p = Mul(x, x) pp = Mul(p, x) k = Mul(pp, a) t = Add(k, x) u = Mul(t, c) e = Tanh(u) w = Add(e, one) "
        "z = Mul(x, w) y = Mul(half, z)",
        "p = Mul(x, x) k = Mul(p, a) t = Add(k, one) cx = Mul(x, c) u = Mul(cx, t) e = Tanh(u) w = Add(e, one) "
        "z = Mul(x, half) y = Mul(z, w)",
    ],
)
def test_gelu_in_all_spellings(body: str) -> None:
    assert rewritten(RecoverGelu(), model(GELU_CONSTANTS + body)) == ["Gelu"]


def test_something_like_gelu_stays() -> None:
    body = "v = Div(x, one) e = Erf(v) w = Add(e, one) z = Mul(x, w) y = Mul(z, half)"
    assert "Gelu" not in rewritten(RecoverGelu(), model(GELU_CONSTANTS + body))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Max(x, zero)", ["Relu"]),
        ("y = Max(zero, x)", ["Relu"]),
        ("r = Max(x, zero) y = Min(r, six)", ["Clip"]),
        ("r = Relu(x) y = Min(six, r)", ["Clip"]),
        ("y = Max(x, six)", ["Max"]),
    ],
)
def test_relu(body: str, expected: list[str]) -> None:
    constants = "zero = Constant<value = float {0}>() six = Constant<value = float {6}>()"
    assert rewritten(RecoverRelu(), model(constants + body)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Reciprocal(d)", ["Sigmoid"]),
        ("y = Div(one, d)", ["Sigmoid"]),
        ("y = Div(x, d)", ["Sigmoid", "Mul"]),
    ],
)
def test_sigmoid_and_silu(body: str, expected: list[str]) -> None:
    formula = "one = Constant<value = float {1}>() n = Neg(x) e = Exp(n) d = Add(one, e)"
    assert rewritten(RecoverSilu(), model(formula + body)) == expected


SOFTMAX = """
    last = Constant<value = int64[1] {-1}>()
    m = ReduceMax<keepdims = 0>(x, last) mk = Unsqueeze(m, last) s = Sub(x, mk) e = Exp(s)
    t = ReduceSum(e, last)
"""


@pytest.mark.parametrize(
    ("rest", "expected"), [("y = Div(e, t)", ["Softmax"]), ("l = Log(t) y = Sub(s, l)", ["LogSoftmax"])]
)
def test_softmax(rest: str, expected: list[str]) -> None:
    assert rewritten(RecoverSoftmax(), model(SOFTMAX + rest)) == expected


def test_softmax_behind_a_maximum_that_keeps_nan() -> None:
    nan = "a = Abs(x) h = ReduceSum<keepdims = 0>(a, last) nn = IsNaN(h) m = Where(nn, h, m0)"
    text = SOFTMAX.replace("m = ReduceMax", "m0 = ReduceMax").replace("mk = Unsq", f"{nan} mk = Unsq")
    assert rewritten(RecoverSoftmax(), model(text + "y = Div(e, t)")) == ["Softmax"]


def test_softmax_without_the_maximum_stays() -> None:
    body = "last = Constant<value = int64[1] {-1}>() e = Exp(x) t = ReduceSum(e, last) y = Div(e, t)"
    assert "Softmax" not in rewritten(RecoverSoftmax(), model(body))


CONV = """
    w = Constant<value = float[2,1,1,1] {2, 3}>() k = Constant<value = float[2,1,1] {5, 7}>()
    b = Constant<value = float[1,2,1,1] {-1, 4}>() c = Conv(x, w)
"""
IMAGES = {"signature": "float[B,1,5,8] x", "result": "float[B,2,5,8] y"}


@pytest.mark.parametrize("rest", ["y = Mul(c, k)", "y = Add(c, b)", "s = Mul(k, c) y = Add(b, s)", "y = Sub(c, b)"])
def test_factors_and_summands_go_into_the_convolution(rest: str) -> None:
    assert rewritten(FoldBatchNorm(), model(CONV + rest, **IMAGES), (3, 1, 5, 8)) == ["Conv"]


def test_transposed_convolution_takes_factors_too() -> None:
    body = CONV.replace("float[2,1,1,1]", "float[1,2,1,1]").replace("Conv(x, w)", "ConvTranspose(x, w)")
    before = model(body + "s = Mul(k, c) y = Add(b, s)", **IMAGES)
    assert rewritten(FoldBatchNorm(), before, (3, 1, 5, 8)) == ["ConvTranspose"]


def test_factors_reach_the_convolution_through_a_transpose() -> None:
    body = CONV + "t = Transpose<perm = [0,2,3,1]>(c) last = Constant<value = float[2] {5, 7}>() y = Mul(t, last)"
    before = model(body, "float[B,1,5,8] x", result="float[B,5,8,2] y")
    assert rewritten(FoldBatchNorm(), before, (3, 1, 5, 8)) == ["Conv", "Transpose"]


def test_a_convolution_with_another_reader_stays() -> None:
    before = model(CONV + "s = Mul(c, k) y = Add(c, s)", **IMAGES)
    assert rewritten(FoldBatchNorm(), before, (3, 1, 5, 8)) == ["Conv", "Mul", "Add"]


QKV = """
    s = Constant<value = float {0.35}>() low = Constant<value = float {-1000000000.0}>()
    one = Constant<value = float {1}>() big = Constant<value = float {2}>()
    q = Mul(x, x) v = Add(x, x) qt = Transpose<perm = [0,2,1,3]>(q) kt = Transpose<perm = [0,2,3,1]>(x)
"""
PLAIN_END = "p = Softmax<axis = -1>(l) vt = Transpose<perm = [0,2,1,3]>(v) o = MatMul(p, vt) y = Transpose<perm = [0,2,1,3]>(o)"
EINSUM_END = """p = Softmax<axis = -1>(l) vt = Transpose<perm = [0,2,3,1]>(v) pt = Transpose<perm = [0,1,3,2]>(p)
    o = MatMul(vt, pt) y = Transpose<perm = [0,3,1,2]>(o)"""
HEADS = {"signature": "float[B,T,2,4] x", "result": "float[B,T,2,4] y"}


@pytest.mark.parametrize("end", [PLAIN_END, EINSUM_END])
@pytest.mark.parametrize("logits", ["a = MatMul(qt, kt) l = Mul(a, s)", "qs = Mul(s, qt) l = MatMul(qs, kt)"])
def test_attention(logits: str, end: str) -> None:
    operators = rewritten(RecoverAttention(), model(QKV + logits + end, **HEADS), (3, 5, 2, 4))
    assert operators == ["Mul", "Add", "Reshape", "Reshape", "Reshape", "Attention", "Reshape"]


HEADS_FIRST = """s = Constant<value = float {0.35}>() q = Mul(x, x) v = Add(x, x)
    kt = Transpose<perm = [0,1,3,2]>(x) a = MatMul(q, kt) l = Mul(a, s) p = Softmax<axis = -1>(l)"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("y = MatMul(p, v)", ["Attention"]),
        ("o = MatMul(p, v) y = Neg(o)", ["Attention", "Neg"]),
        (
            "vt = Transpose<perm = [0,1,3,2]>(v) pt = Transpose<perm = [0,1,3,2]>(p) o = MatMul(vt, pt) "
            "y = Transpose<perm = [0,1,3,2]>(o)",
            ["Attention", "Transpose", "Transpose"],
        ),
    ],
)
def test_attention_on_keys_and_values_with_heads_first(end: str, expected: list[str]) -> None:
    """Caches of [B, N, S, H] are not transposed."""
    before = model(HEADS_FIRST + end, "float[B,2,T,4] x", result="float[B,2,T,4] y")
    operators = rewritten(RecoverAttention(), before, (3, 2, 5, 4))
    assert operators == ["Mul", "Add", *expected]


def test_attention_of_one_query_whose_transposes_are_reshapes() -> None:
    body = """shape = Constant<value = int64[4] {0, 2, 1, 4}>() column = Constant<value = int64[4] {0, 2, 5, 1}>()
        back = Constant<value = int64[4] {0, 1, 2, 4}>() one = Constant<value = int64[1] {1}>()
        first = Constant<value = int64[1] {0}>() s = Constant<value = float {0.35}>()
        x1 = Slice(x, first, one, one) q = Reshape(x1, shape) k = Transpose<perm = [0,2,3,1]>(x) a = MatMul(q, k)
        l = Mul(a, s) p = Softmax<axis = -1>(l) pt = Reshape(p, column) vt = Transpose<perm = [0,2,3,1]>(x)
        o = MatMul(vt, pt) y = Reshape(o, back)"""
    before = model(body, "float[B,5,2,4] x", result="float[B,1,2,4] y")
    operators = rewritten(RecoverAttention(), before, (3, 5, 2, 4))
    assert "Attention" in operators
    assert "MatMul" not in operators


@pytest.mark.parametrize("where", ["l = Where(f, b, low)", "n = Not(f) l = Where(n, low, b)"])
def test_attention_with_a_mask_that_hides_whole_rows(where: str) -> None:
    """The first query sees no key."""
    mask = """
        last = Constant<value = int64[1] {-1}>() m2 = Constant<value = int64[1] {-2}>()
        h = Constant<value = int64[2] {2, 3}>() zero = Constant<value = int64 {0}>() step = Constant<value = int64 {1}>()
        sh = Shape<start = 1, end = 2>(x) n0 = Squeeze(sh) t = Range(zero, n0, step)
        rows = Unsqueeze(t, last) cols = Unsqueeze(t, m2) f = Greater(rows, cols)
    """
    body = QKV + mask + "a = MatMul(qt, kt) b = Mul(a, s) " + where + " " + PLAIN_END
    operators = rewritten(RecoverAttention(), model(body, **HEADS), (3, 5, 2, 4))
    assert "Attention" in operators
    assert "Softmax" not in operators


def test_attention_with_a_bias_of_keys() -> None:
    bias = """
        axes = Constant<value = int64[2] {2, 3}>() last = Constant<value = int64[1] {-1}>()
        c = ReduceSum<keepdims = 0>(x, axes) middle = Constant<value = int64[2] {1, 2}>() b = Unsqueeze(c, middle)
    """
    body = QKV + bias + "a = MatMul(qt, kt) as = Mul(a, s) l = Add(as, b) " + PLAIN_END
    operators = rewritten(RecoverAttention(), model(body, **HEADS), (3, 5, 2, 4))
    assert "Attention" in operators
    assert "Expand" in operators


def test_attention_whose_weights_are_read_stays() -> None:
    body = QKV + "l = MatMul(qt, kt) " + PLAIN_END.replace("y = Transpose", "z = Transpose") + (
        " all = Constant<value = int64[2] {2,3}>() k = ReduceSum(p, all) kk = Transpose<perm = [0,2,1,3]>(k) y = Add(z, kk)"
    )
    before = model(body, **HEADS)
    assert "Attention" not in rewritten(RecoverAttention(), before, (3, 5, 2, 4))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Mul(x, one) y = Neg(a)", ["Neg"]),
        ("a = Div(x, one) y = Neg(a)", ["Neg"]),
        ("a = Add(x, zero) y = Neg(a)", ["Add", "Neg"]),
        ("a = Div(one, x) y = Neg(a)", ["Div", "Neg"]),
        ("i = Cast<to = 6>(x) j = Add(nought, i) k = Sub(j, nought) y = Cast<to = 1>(k)", ["Cast", "Cast"]),
    ],
)
def test_neutral_elements(body: str, expected: list[str]) -> None:
    constants = """one = Constant<value = float {1}>() zero = Constant<value = float {0}>()
        nought = Constant<value = int32 {0}>()"""
    assert rewritten(FoldNeutral(), model(constants + body)) == expected


@pytest.mark.parametrize("leading", [0, 1, 2])
def test_layer_norm_whose_weights_have_leading_axes(leading: int) -> None:
    dims = ",".join(["1"] * leading + ["8"])
    weights = f"k = Constant<value = float[{dims}] {{1,2,3,4,5,6,7,8}}>() b = Constant<value = float[{dims}] {{8,7,6,5,4,3,2,1}}>()"
    body = weights + TWO_MOMENTS + "r = Reciprocal(s) rk = Mul(r, k) n = Mul(d, rk) y = Add(n, b)"
    assert rewritten(RecoverLayerNorm(), model(body)) == ["LayerNormalization"]
