"""What TensorRT refuses beside operators and element types, each by a graph of one node."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ConversionError
from jax2onnx_tensorrt import TensorRt
from jax2onnx_tensorrt._refusals import problems


def parsed(signature: str, node: str, opset: int = 23) -> ir.Model:
    return ir.from_proto(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> agraph {signature} {{ {node} }}')
    )


_QKV = "float[1,2,5,4] q, float[1,2,5,4] k, float[1,2,5,4] v"

REFUSED = {
    "soft cap": (f"({_QKV}) => (float[1,2,5,4] y)", "y = Attention<softcap = 3.0>(q, k, v)", "a soft cap"),
    "3-D": (
        "(float[1,5,8] q, float[1,5,8] k, float[1,5,8] v) => (float[1,5,8] y)", "y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v)",
        "operands that have not four axes",
    ),
    "short mask": (f"({_QKV}, bool[5,5] m) => (float[1,2,5,4] y)", "y = Attention(q, k, v, m)", "operands that have not four axes"),
    "past": (
        f"({_QKV}, float[1,2,3,4] pk, float[1,2,3,4] pv) => (float[1,2,5,4] y)", "y = Attention(q, k, v, , pk, pv)",
        "past keys and values",
    ),
    "one axis": ("(float[1,2,8] x) => (float[1,2,4] y)", "y = MaxPool<kernel_shape = [2], strides = [2]>(x)", "1 axes in space"),
    "dilations": (
        "(float[1,2,8,8] x) => (float[1,2,6,6] y)", "y = MaxPool<kernel_shape = [2,2], dilations = [2,2]>(x)", "dilations",
    ),
    "indices": (
        "(float[1,2,8,8] x) => (float[1,2,7,7] y, int64[1,2,7,7] i)", "y, i = MaxPool<kernel_shape = [2,2]>(x)", "more than one result",
    ),
    "computed axes": ("(float[2,3] x, int64[1] a) => (float y)", "y = ReduceSum<keepdims = 0>(x, a)", "axes that are computed"),
    "cubic": (
        "(float[1,1,4,4] x, float[4] s) => (float[1,1,8,8] y)", 'y = Resize<mode = "cubic">(x, , s)', "mode=cubic",
    ),
    "antialiasing": (
        "(float[1,1,4,4] x, float[4] s) => (float[1,1,2,2] y)", 'y = Resize<mode = "linear", antialias = 1>(x, , s)', "antialiasing",
    ),
    "input_forget": (
        "(float[2,1,3] x, float[1,16,3] w, float[1,16,4] r) => (float[2,1,1,4] y)", "y = LSTM<hidden_size = 4, input_forget = 1>(x, w, r)",
        "input_forget=1",
    ),
    "layout": (
        "(float[1,2,3] x, float[1,12,3] w, float[1,12,4] r) => (float[1,2,1,4] y)", "y = GRU<hidden_size = 4, layout = 1>(x, w, r)",
        "layout=1",
    ),
    "activations": (
        "(float[2,1,3] x, float[2,4,3] w, float[2,4,4] r) => (float[2,2,1,4] y)",
        'y = RNN<hidden_size = 4, direction = "bidirectional", activations = ["Tanh", "Relu"]>(x, w, r)', "activations that differ",
    ),
    "zero point": (
        "(float[3] x, float s) => (int8[3] y) <int8 z = {3}>", "y = QuantizeLinear(x, s, z)", "a zero point that is not 0",
    ),
    "computed zero point": (
        "(float[3] x, float s, int8[3] z) => (int8[3] y)", "y = QuantizeLinear(x, s, z)", "a zero point that is not 0",
    ),
    "symbolic EyeLike": ("(float[N,N] x) => (float[N,N] y)", "y = EyeLike(x)", "an operand of symbolic sizes"),
    "symbolic Hardmax": ("(float[N] x) => (float[N] y)", "y = Hardmax<axis = 0>(x)", "an axis of symbolic size"),
    "depth": ("(int64[3] i, int64 d, float[2] v) => (float[3,N] y)", "y = OneHot(i, d, v)", "depths that are computed"),
    "unsorted": ("(float[9] x, int64[1] k) => (float[K] y, int64[K] i)", "y, i = TopK<sorted = 0>(x, k)", "results that are not sorted"),
    "reduction": (
        "(float[4] x, int64[2,1] i, float[2] u) => (float[4] y)", 'y = ScatterND<reduction = "add">(x, i, u)', "ScatterND_add of float32",
    ),
    "small heads": (f"({_QKV}) => (float[1,2,5,4] y)", "y = Attention(q, k, v)", "heads of 4 features"),
    "single precision": (f"({_QKV}) => (float[1,2,5,4] y)", "y = Attention(q, k, v)", "Attention of float32"),
    "other values": (
        "(float16[1,2,5,16] q, float16[1,2,5,16] k, float16[1,2,5,32] v) => (float16[1,2,5,32] y)", "y = Attention(q, k, v)",
        "heads of 16, 32 features",
    ),
    "scattered sum": (
        "(float[4] x, int64[2] i, float[2] u) => (float[4] y)", 'y = ScatterElements<reduction = "add">(x, i, u)',
        "ScatterElements_add of float32",
    ),
    "uint8 between": ("(float[2] x) => (int32[2] y) <uint8[2] b>", "b = Cast<to = 2>(x) y = Cast<to = 6>(b)", "uint8 result is read by another operator"),
    "computed split": (
        "(float[4] x, int64[2] s) => (float[N] y, float[M] z)", "y, z = Split(x, s)", "sizes that are computed",
    ),
    "dilated and strided": (
        "(float[1,1,4,4] x, float[1,1,2,2] w) => (float[1,1,9,9] y)", "y = ConvTranspose<dilations = [2,2], strides = [2,2]>(x, w)",
        "both strides and dilations",
    ),
    "four axes in space": (
        "(float[1,1,4,4,4,4] x, float[1,1,2,2,2,2] w) => (float[1,1,3,3,3,3] y)", "y = Conv(x, w)", "4 axes in space",
    ),
    "symbolic channels": ("(float[1,C,4,4] x, float[1,C,2,2] w) => (float[1,1,3,3] y)", "y = Conv(x, w)", "channels is symbolic"),
    "branch in a branch": (
        "(bool c, bool d, float[N] x) => (float[N] y)",
        ("y = If<then_branch = t () => (float[N] a) {a = If<then_branch = p () => (float[N] q) {q = Abs(x)}, "
        "else_branch = r () => (float[N] s) {s = Neg(x)}>(d)}, else_branch = e () => (float[N] b) {b = Sin(x)}>(c)"),
        "a branch in a branch",
    ),
    "type": ("(uint32[3] x) => (uint32[3] y)", "y = Identity(x)", "The input 'x' is uint32"),
    "operator": ("(float[3,3] x) => (float y)", "y = Det(x)", "Det"),
    "foreign": ("(float[3] x) => (float[3] y)", "y = com.microsoft.FastGelu(x)", "not of the standard"),
    "nine axes": ("(float[1,1,1,1,1,1,1,1,2] x) => (float[1,1,1,1,1,1,1,1,2] y)", "y = Abs(x)", "9 axes"),
    "stacked steps": (
        "(int64 n, bool c, float[2] s) => (float[2] e, float[M,2] y)",
        "e, y = Loop<body = b (int64 i, bool k, float[2] a) => (bool k2, float[2] a2, float[2] r) {k2 = Identity(k) a2 = Abs(a) r = Neg(a)}>(n, c, s)",
        "stacked results of a number of steps that is not known",
    ),
    "growing state": (
        "(bool c, float[N] s) => (float[M] e)",
        "n = Constant<value = int64 {3}>() e = Loop<body = b (int64 i, bool k, float[P] a) => (bool k2, float[Q] a2) {k2 = Identity(k) a2 = Concat<axis = 0>(a, a)}>(n, c, s)",
        "whose shape changes from step to step",
    ),
    "branches": (
        "(bool c, float[2] x) => (float[?] y)".replace("[?]", "[N]"),
        "y = If<then_branch = t () => (float[2] a) {a = Abs(x)}, else_branch = e () => (float[1,2] b) {p = Constant<value = int64[1] {0}>() b = Unsqueeze(x, p)}>(c)",
        "branches whose results differ in their number of axes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_restriction_is_named(name):
    signature, node, message = REFUSED[name]
    found = list(problems(parsed(signature, node), "10.15"))
    assert any(message in text for text in found), found


_HALVES = "float16[1,2,5,16] q, float16[1,2,5,16] k, float16[1,2,5,16] v"

ALLOWED = {
    "attention": (f"({_HALVES}, bool[1,1,5,5] m) => (float16[1,2,5,16] y)", "y = Attention(q, k, v, m)"),
    "a cache": (
        "(float16[1,2,9,16] c, float16[1,2,1,16] u, int64[1] i) => (float16[1,2,9,16] y)", "y = TensorScatter(c, u, i)",
    ),
    "zero point of 0": ("(float[3] x, float s) => (float[3] y) <int8 z = {0}>", "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"),
    "pooling": ("(float[1,2,8,8] x) => (float[1,2,7,7] y)", "y = MaxPool<kernel_shape = [2,2]>(x)"),
    "linear": ("(float[1,1,4,4] x, float[4] s) => (float[1,1,8,8] y)", 'y = Resize<mode = "linear">(x, , s)'),
    "dilated": ("(float[1,1,4,4] x, float[1,1,2,2] w) => (float[1,1,6,6] y)", "y = ConvTranspose<dilations = [2,2]>(x, w)"),
    "strided": ("(float[1,1,4,4] x, float[1,1,2,2] w) => (float[1,1,8,8] y)", "y = ConvTranspose<strides = [2,2]>(x, w)"),
    "three axes in space": ("(float[1,1,4,4,4] x, float[1,1,2,2,2] w) => (float[1,1,3,3,3] y)", "y = Conv(x, w)"),
    "uint8 image": ("(uint8[2,2] x) => (float[2,2] y)", "y = Cast<to = 1>(x)"),
    "int8 weights": (
        "(float[1,3] x) => (float[1,2] y) <int8[3,2] w = {1,2,3,4,5,6}, float s = {0.5}>", "d = DequantizeLinear(w, s) y = MatMul(x, d)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_what_the_table_has_is_no_problem(name):
    assert list(problems(parsed(*ALLOWED[name]), "10.15")) == []


def test_the_error_lists_all_problems_once():
    target = TensorRt()
    model = parsed(
        "(float[3,3] x) => (float y, float[3,3] z)", '[det] y = Det(x) [bits] z = BitShift<direction = "LEFT">(x, x)'
    )
    *_, refusals = target.passes()
    with pytest.raises(
        ConversionError, match=r"(?s)operator table of 10\.15.*Det \(det\)\n.*BitShift \(bits\)\n.*onnx"
    ):
        refusals(target)(model)
