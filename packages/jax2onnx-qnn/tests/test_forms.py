"""The forms that the NPU has: each means what JAX computes, here in ONNX Runtime, and holds what the NPU does not take no more."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_onnxruntime import load
from jax2onnx_qnn import Qnn
from jax2onnx_qnn._forms import FormsPass

RNG = np.random.default_rng(0)


def adapted(signature: str, body: str) -> tuple[ir.Model, ir.Model]:
    """A model, and the same in the forms of the NPU."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> g {signature} {{ {body} }}')
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    return model, FormsPass(Qnn())(model.clone()).model


def nodes(model: ir.Model, op_type: str) -> list[ir.Node]:
    return [node for node in all_nodes(model) if node.op_type == op_type]


FORMS = {
    "norm over two axes": (
        "(float[2,3,4] x) => (float[2,3,4] y) <float[3,4] s = {1,2,3,4,5,6,7,8,9,10,11,12}>", "y = LayerNormalization<axis = 1>(x, s)",
    ),
    "norm of rows": ("(float[3,2,4] x) => (float[3,2,4] y) <float[4] s = {1,2,3,4}>", "y = RMSNormalization(x, s)"),
    "five axes": ("(float[2,1,3,1,4] x) => (float[2,1,3,1,4] y)", "y = Tanh(x)"),
    "channels last": (
        "(float[1,3,4,2] x) => (float[1,6,8,2] y) <float[4] s = {1,2,2,1}>", 'y = Resize<mode = "linear">(x, , s)',
    ),
    "sum from the end": ("(float[2,5] x) => (float[2,5] y) <int64 a = {1}>", "y = CumSum<reverse = 1>(x, a)"),
    "sum of what is before": ("(float[2,5] x) => (float[2,5] y) <int64 a = {1}>", "y = CumSum<exclusive = 1>(x, a)"),
    "sum of what is behind": ("(float[2,5] x) => (float[2,5] y) <int64 a = {1}>", "y = CumSum<exclusive = 1, reverse = 1>(x, a)"),
    "computed bounds": ("(float[2,5] x, float b) => (float[2,5] y)", "n = Neg(b) y = Clip(x, n, b)"),
    "one index": ("(float[4,3] x, float[3] u) => (float[4,3] y) <int64[1] i = {-2}>", "y = ScatterND(x, i, u)"),
    "a product between reshapes": (
        "(float[2,2,2] x) => (float[2,2,2] y) <int64[2] a = {2,4}, int64[3] b = {2,2,2}, float[4,4] w = {1,2,3,4,5,6,7,8,9,8,7,6,5,4,3,2}>",
        "p = Reshape(x, a) q = MatMul(p, w) y = Reshape(q, b)",
    ),
    "a number next to others": (
        "(float[2,2] x) => (float[6] y) <float[2,1] c = {3,3}, int64[1] s = {6}>", "j = Concat<axis = -1>(x, c) y = Reshape(j, s)",
    ),
    "booleans": ("(bool[1,2,1,2,1] x) => (bool[2,2,1,2,3] y) <int64[5] s = {2,2,1,2,3}>", "y = Expand(x, s)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_form_means_the_same(name):
    model, changed = adapted(*FORMS[name])
    assert changed.graph.num_nodes() != 0
    feeds = {
        value.name or "": (RNG.random(value.shape.numpy()) > 0.5) if value.dtype == ir.DataType.BOOL
        else np.abs(RNG.standard_normal(value.shape.numpy())).astype(np.float32)
        for value in model.graph.inputs
    }  # fmt: skip
    assert {node.op_type for node in all_nodes(changed)} != {node.op_type for node in all_nodes(model)} or "sum" in name
    np.testing.assert_allclose(load(changed)(feeds)[0], load(model)(feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_indices_below_zero_count_from_the_end(axis):
    def take(x, i):
        return jnp.take_along_axis(x, i, axis=axis)

    program = to_onnx(take, [(4, 3), ((4, 3), jnp.int32)], target="qnn")
    (node,) = nodes(program.model, "GatherElements")
    assert node.inputs[1].producer().op_type == "Where"
    assert node.inputs[1].producer().inputs[0].producer().op_type == "Less"
    x, i = RNG.standard_normal((4, 3)).astype(np.float32), RNG.integers(-3, 3, (4, 3)).astype(np.int32)
    np.testing.assert_array_equal(load(program.model)({"x": x, "i": i})[0], take(x, i))


INDICES = {
    "v, i = TopK(x, two)": False,
    "v, u = TopK(x, two) w = Cast<to = 7>(v) i = Identity(w)": True,
    "a = ArgMax<axis = 1, keepdims = 1>(x) i = Expand(a, shape)": True,
    "i = ArgMax<axis = 1, keepdims = 1>(x)": False,
    "r = Range(zero, n, one) i = Reshape(r, shape)": False,
    "r = Range(one, m, one) i = Reshape(r, shape)": False,
    "r = Range(minus, m, one) i = Reshape(r, shape)": True,
    "r = Range(one, m, minus) i = Reshape(r, shape)": True,
    "r = Range(n, m, one) i = Reshape(r, shape)": True,
}


@pytest.mark.parametrize("body", INDICES)
def test_indices_that_may_be_below_zero_are_wrapped(body):
    signature = """(float[2,5] x, int64 n, int64 m) => (float[A,B] y)
    <int64[1] two = {2}, int64[2] shape = {2,2}, int64 zero = {0}, int64 one = {1}, int64 minus = {-1}>"""
    _, changed = adapted(signature, f"{body} y = GatherElements<axis = 1>(x, i)")
    assert bool(nodes(changed, "Where")) is INDICES[body]


@pytest.mark.parametrize("start", [-9, -1, 0, 3, 4, 9])
def test_a_slice_from_a_computed_place_is_a_gather(start):
    def cut(x, start):
        return jax.lax.dynamic_slice_in_dim(x, start, 4)

    program = to_onnx(cut, [(7, 3), ((), jnp.int32)], target="qnn")
    assert not nodes(program.model, "Slice")
    x = RNG.standard_normal((7, 3)).astype(np.float32)
    np.testing.assert_array_equal(load(program.model)({"x": x, "start": np.int32(start)})[0], cut(x, start))


@pytest.mark.parametrize("divisor", [3, -3])
def test_a_remainder_has_the_sign_of_the_dividend(divisor):
    program = to_onnx(lambda x: jax.lax.rem(x, np.int32(divisor)), [((6,), jnp.int32)], target="qnn")
    assert not nodes(program.model, "Mod")
    x = np.array([7, -7, 3, -3, 0, 100], np.int32)
    np.testing.assert_array_equal(load(program.model)({"x": x})[0], np.fmod(x, divisor))


@pytest.mark.parametrize(
    ("shape", "body", "indices", "written"),
    [
        ("[2,2]", "y = GatherElements(x, i)", "int64[2,2] i = {0,-1,-4,3}", [[0, 3], [0, 3]]),
        ("[2,2]", "y = GatherElements<axis = -1>(x, i)", "int64[2,2] i = {0,-1,-2,1}", [[0, 1], [0, 1]]),
        ("[3]", "y = GatherND(x, i)", "int64[3,2] i = {0,-1,-4,0,-1,-2}", [[0, 1], [0, 0], [3, 0]]),
        ("[2,2]", "y = GatherND(x, i)", "int64[2,1] i = {0,1}", [[0], [1]]),
        (
            "[4,2]",
            "y = ScatterElements(x, i, x)",
            "int64[4,2] i = {0,-1,-4,0,1,2,3,-1}",
            [[0, 3], [0, 0], [1, 2], [3, 3]],
        ),
    ],
)
def test_constant_indices_count_from_the_beginning(shape, body, indices, written):
    _, changed = adapted(f"(float[4,2] x) => (float{shape} y) <{indices}>", body)
    (node,) = changed.graph
    np.testing.assert_array_equal(node.inputs[1].const_value.numpy(), written)


@pytest.mark.parametrize(("shape", "perm", "axes"), [
    ("2,2,2,3,2,3", [0, 1, 3, 2, 4, 5], 4),  # windows of an image
    ("1,6,2,2,2,2", [0, 5, 3, 2, 4, 1], 5),
    ("2,6,2,2,2,2", [0, 5, 3, 2, 4, 1], 6),  # of which no two stay side by side
    ("2,2,2,2,3", [0, 3, 2, 1, 4], 5),
    ("1,1,1,1,1,1", [0, 5, 3, 2, 4, 1], 0),
])  # fmt: skip
def test_transposes_go_over_the_fewest_axes_where_there_are_more_than_five(shape, perm, axes):
    sizes = [int(size) for size in shape.split(",")]
    count = math.prod(sizes)
    given = f"<int64[{len(sizes)}] a = {{{shape}}}, int64[1] b = {{{count}}}>"
    body = f"r = Reshape(x, a) t = Transpose<perm = {perm}>(r) y = Reshape(t, b)"
    model, changed = adapted(f"(float[{count}] x) => (float[{count}] y) {given}", body)
    assert max((len(node.outputs[0].shape) for node in nodes(changed, "Transpose")), default=0) == axes
    x = np.arange(count, dtype=np.float32)
    np.testing.assert_array_equal(load(changed)({"x": x})[0], load(model)({"x": x})[0])


@pytest.mark.parametrize("body", [
    "t = Transpose<perm = [0,1,3,2,4,5]>(x) y = Reshape(t, b)",
    "r = Reshape(x, a) y = Transpose<perm = [0,1,3,2,4,5]>(r)",
    "r = Reshape(x, a) t = Transpose<perm = [0,1,3,2,4,5]>(r) y = Neg(t)",
])  # fmt: skip
def test_transposes_that_are_not_between_reshapes_stay(body):
    shape = "2,2,2,3,2,3"
    given = f"<int64[6] a = {{{shape}}}, int64[6] b = {{2,2,3,2,2,3}}>"
    _, changed = adapted(f"(float[{shape}] x) => (float[2,2,3,2,2,3] y) {given}", body)
    assert [len(node.outputs[0].shape) for node in nodes(changed, "Transpose")] == [6]


def test_a_reshape_may_be_transposed_twice():
    body = "r = Reshape(x, a) t = Transpose<perm = [0,1,3,2,4,5]>(r) u = Transpose<perm = [2,1,0,3,4,5]>(r)"
    given = "<int64[6] a = {2,2,2,3,2,3}, int64[1] b = {144}>"
    body += " v = Reshape(t, b) w = Reshape(u, b) y = Sub(v, w)"
    model, changed = adapted(f"(float[144] x) => (float[144] y) {given}", body)
    assert all(len(node.outputs[0].shape) <= 5 for node in all_nodes(changed))
    x = np.arange(144, dtype=np.float32)
    np.testing.assert_array_equal(load(changed)({"x": x})[0], load(model)({"x": x})[0])


@pytest.mark.parametrize(
    ("dtype", "operator"), [("float", "Pad"), ("float16", "Pad"), ("int32", "Concat"), ("bool", "Concat")]
)
def test_floats_alone_are_padded(dtype, operator):
    given = f"<{dtype}[2,1] c = {{0,0}}, int64[1] s = {{6}}>"
    _, changed = adapted(f"({dtype}[2,2] x) => ({dtype}[6] y) {given}", "j = Concat<axis = 1>(x, c) y = Reshape(j, s)")
    assert [node.op_type for node in all_nodes(changed)] == [operator, "Reshape"]
