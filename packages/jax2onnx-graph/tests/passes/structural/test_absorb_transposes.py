from __future__ import annotations

import cProfile

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.absorb_transposes import AbsorbTransposes

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
NHWC, NCHW = "perm = [0, 2, 3, 1]", "perm = [0, 3, 1, 2]"


def weights(*shape: int) -> str:
    numbers = np.random.default_rng(0).integers(-9, 9, shape).ravel()
    return f"{{{', '.join(f'{n}.0' for n in numbers)}}}"


W = f"float[12,2] w = {weights(12, 2)}"
SHAPE = "int64[2] shape = {-1, 12}"


@pytest.mark.parametrize("flatten", ["Reshape(t, shape)", "Flatten<axis = 1>(t)"])
def test_rows_of_weights_are_ordered_instead_of_what_is_flattened(rewrite, flatten):
    text = f"""g (float[N,3,2,2] x) => (float[N,2] y) <{W}, {SHAPE}> {{
      t = Transpose<{NHWC}>(x)
      f = {flatten}
      y = MatMul(f, w)
    }}"""
    view = "Flatten{1}(x)" if "Flatten" in flatten else "Reshape(x, [-1, 12])"
    assert rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4) == [f"MatMul({view}, const[12, 2])"]


@pytest.mark.parametrize(("transposed", "attributes"), [(0, "transB = 0"), (1, "transB = 1, alpha = 2.0")])
def test_weights_of_gemm(rewrite, transposed, attributes):
    shape = "2,12" if transposed else "12,2"
    text = f"""g (float[N,3,2,2] x) => (float[N,2] y) <float[{shape}] w = {weights(12, 2)}, {SHAPE}, float[2] b = {{1.0, 2.0}}> {{
      t = Transpose<{NHWC}>(x)
      f = Reshape(t, shape)
      y = Gemm<{attributes}>(f, w, b)
    }}"""
    (result,) = rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4)
    assert "Transpose" not in result


def test_what_stands_between_is_ordered(rewrite):
    text = f"""g (float[N,3,2,2] x) => (float[N,2] y) <{W}, {SHAPE}, float[12] scale = {weights(12)}, float[1,1] one = {{1.0}}> {{
      t = Transpose<{NHWC}>(x)
      r = Relu(t)
      f = Reshape(r, shape)
      a = Mul(scale, f)
      b = Add(a, one)
      c = Sigmoid(b)
      d = Mul(b, c)
      y = MatMul(d, w)
    }}"""
    (result,) = rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4)
    assert "Transpose" not in result
    assert "Reshape(Relu(x), [-1, 12])" in result


def test_several_products_of_the_same_features(rewrite):
    text = f"""g (float[N,3,2,2] x) => (float[N,2] y, float[N,2] z) <{W}, float[12,2] v = {weights(12, 2)}, {SHAPE}> {{
      t = Transpose<{NHWC}>(x)
      f = Reshape(t, shape)
      y = MatMul(f, w)
      z = MatMul(f, v)
    }}"""
    assert not any("Transpose" in result for result in rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4))


def test_columns_of_weights_are_ordered_instead_of_what_features_are_split_into(rewrite):
    text = f"""g (float[N,2] x) => (float[N,3,2,2] y)
      <float[2,12] w = {weights(2, 12)}, float[12] b = {weights(12)}, int64[4] shape = {{-1, 2, 2, 3}}> {{
      m = MatMul(x, w)
      a = Add(m, b)
      f = Reshape(a, shape)
      r = Relu(f)
      y = Transpose<{NCHW}>(r)
    }}"""
    assert rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4) == [
        "Relu(Reshape(Add(MatMul(x, const[2, 12]), const[12]), [-1, 3, 2, 2]))"
    ]


def test_features_that_are_split_by_a_computed_shape_keep_their_transpose(rewrite):
    text = f"""g (float[N,2] x, float[N,2,2,3] q) => (float[N,3,2,2] y)
      <float[2,12] w = {weights(2, 12)}, float[N,2,2,3] f> {{
      m = MatMul(x, w)
      shape = Shape(q)
      f = Reshape(m, shape)
      y = Transpose<{NCHW}>(f)
    }}"""
    assert "Transpose" in "".join(rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4))


def test_features_that_are_joined_and_split_alike_need_no_weights(rewrite):
    text = f"""g (float[N,3,2,2] x) => (float[N,3,2,2] y) <{SHAPE}, int64[4] back = {{0, 2, 2, 3}}, float[12] b = {weights(12)}> {{
      t = Transpose<{NHWC}>(x)
      f = Reshape(t, shape)
      a = Add(f, b)
      s = Reshape(a, back)
      y = Transpose<{NCHW}>(s)
    }}"""
    assert rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4) == [
        "Reshape(Add(Reshape(x, [-1, 12]), const[12]), [0, 3, 2, 2])"
    ]


@pytest.mark.parametrize(
    "rest",
    [
        "y = MatMul(f, p)",  # no constant
        "r = Softmax(f) y = MatMul(r, w)",  # not element by element
        "m = MatMul(f, w) n = ReduceSum(f) y = Add(m, n)",  # another reader
        "q = Mul(f, p2) y = MatMul(q, w)",  # an operand whose features have their own order
        "m = MatMul(f, w) i = Constant<value = int64[1] {1}>() n = Gather<axis = 1>(f, i) y = Add(m, n)",  # a feature by its number
        "m = MatMul(f, w) i = ArgMax<axis = 1>(f) n = Cast<to = 1>(i) y = Add(m, n)",  # the number of a feature
    ],
)
def test_what_cannot_be_ordered_keeps_its_transpose(rewrite, rest):
    text = f"""g (float[N,3,2,2] x, float[12,2] p, float[N,12] p2) => (float[N,2] y) <{W}, {SHAPE}> {{
      t = Transpose<{NHWC}>(x)
      f = Reshape(t, shape)
      {rest}
    }}"""
    assert "Transpose" in "".join(rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4))


@pytest.mark.parametrize(
    ("perm", "shape"),
    [
        ([1, 0, 2, 3], [-1, 12]),  # the batch is moved, too
        ([0, 2, 1, 3], [-1, 6]),  # the axis of 2 in between is joined with the batch
        ([0, 2, 3, 1], [0, 2, 0]),  # a size that is taken over from an axis
    ],
)
def test_other_views_keep_their_transpose(rewrite, perm, shape):
    columns = 3 if len(shape) == 3 else shape[-1]
    text = f"""g (float[3,3,2,2] x) => (float y) <float[{columns},2] w = {weights(columns, 2)}, int64[{len(shape)}] shape = {{{str(shape)[1:-1]}}}> {{
      t = Transpose<perm = {perm}>(x)
      f = Reshape(t, shape)
      m = MatMul(f, w)
      y = ReduceSum<keepdims = 0>(m)
    }}"""
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEAD + text))
    assert not AbsorbTransposes()(ir.from_proto(model)).modified


def test_a_transposed_value_with_another_reader_stays(rewrite):
    text = f"""g (float[N,3,2,2] x) => (float[N,2] y, float[N,2,2,3] z) <{W}, {SHAPE}> {{
      t = Transpose<{NHWC}>(x)
      f = Reshape(t, shape)
      y = MatMul(f, w)
      z = Relu(t)
    }}"""
    assert any("Reshape(Transpose" in result for result in rewrite(AbsorbTransposes(), HEAD + text, tolerance=1e-4))


def test_large_weights_are_not_stored_twice():
    model = onnx.parser.parse_model(HEAD + f"""g (float[N,3,2,2] x, float[N,12] z) => (float[N,100] y) <{SHAPE}> {{
      t = Transpose<{NHWC}>(x)
      f = Reshape(t, shape)
      m = MatMul(f, w)
      n = MatMul(z, w)
      y = Add(m, n)
    }}""")  # fmt: skip
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((12, 100), np.float32), "w"))
    inferred = onnx.shape_inference.infer_shapes(model)
    assert not AbsorbTransposes()(ir.from_proto(inferred)).modified


def test_long_chains_take_linear_time():
    def calls(count: int) -> int:
        steps = "".join(
            f"t{i} = Transpose<{NHWC}>(x) f{i} = Reshape(t{i}, shape) a{i + 1} = Add(a{i}, f{i})\n"
            for i in range(count)
        )
        text = f"g (float[N,3,2,2] x, float[N,12] a0) => (float[N,12] a{count}) <{SHAPE}> {{ {steps} }}"
        model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEAD + text)))
        profile = cProfile.Profile()  # it counts, and so a busy machine changes nothing
        profile.runcall(AbsorbTransposes(), model)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(160) < 6 * calls(40)
