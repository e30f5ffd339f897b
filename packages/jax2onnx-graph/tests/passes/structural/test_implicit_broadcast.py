from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.implicit_broadcast import ImplicitBroadcast
from onnx_ir import from_onnx_text

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
X = "float[N,4,5] x"


@pytest.mark.parametrize(
    ("inputs", "operators", "expected"),
    [
        ("float[5] b", "e = Expand(b, shape) y = Add(x, e)", "Add(x, b)"),
        ("float[1,4,1] b", "e = Expand(b, shape) y = Sub(e, x)", "Sub(b, x)"),
        ("float[5] b", "r = Unsqueeze(b, lead) e = Expand(r, shape) y = Mul(x, e)", "Mul(x, b)"),
        ("float[4] b", "r = Unsqueeze(b, last) e = Expand(r, shape) y = Mul(x, e)", "Mul(x, Unsqueeze(b, [1]))"),
        ("float[5] b", "r = Reshape(b, row) e = Expand(r, shape) y = Max(x, e)", "Max(x, b)"),
        ("float b", "e = Expand(b, shape) c = Less(x, e) y = Where(c, x, e)", "Where(Less(x, b), x, b)"),
        ("float[5] b", "c = Less(x, x) e = Where(c, b, b) y = Add(x, e)", "Add(x, b)"),
        ("float[5] b", "f = Expand(b, four) e = Expand(f, shape) y = Relu(e)", "Relu(Expand(b, {}))"),
    ],
)  # fmt: skip
def test_expands_before_broadcasting_operators_vanish(rewrite, inputs, operators, expected):
    text = f"""g ({X}, {inputs}) => (float[N,4,5] y)
      <int64[2] lead = {{0, 1}}, int64[1] last = {{1}}, int64[3] row = {{1, 1, 5}}, int64[2] four = {{4, 5}}> {{
      shape = Shape(x)
      {operators}
    }}"""
    assert rewrite(ImplicitBroadcast(), HEAD + text) == [expected.format("Shape(x)")]


def test_an_expand_that_gives_the_result_its_shape_stays(rewrite):
    text = f"""g ({X}, float[5] b) => (float[N,4,5] y) {{
      shape = Shape(x)
      e = Expand(b, shape)
      y = Add(e, b)
    }}"""
    assert rewrite(ImplicitBroadcast(), HEAD + text) == ["Add(Expand(b, Shape(x)), b)"]


def test_one_of_two_expands_stays_where_both_are_needed(rewrite):
    text = f"""g ({X}, float[5] b, float[4,1] c) => (float[N,4,5] y) {{
      shape = Shape(x)
      e = Expand(b, shape)
      f = Expand(c, shape)
      y = Mul(e, f)
    }}"""
    assert rewrite(ImplicitBroadcast(), HEAD + text) == ["Mul(b, Expand(c, Shape(x)))"]


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ("y = Mul(r, b)", "Mul(Unsqueeze(b, [0, 1]), b)"),  # which has the rank of the result
        ("c = Add(x, r) y = Mul(c, r)", "Mul(Add(x, b), b)"),
        ("s = Mul(r, r) c = Add(x, s) y = Mul(c, r)", "Mul(Add(x, Mul({0}, {0})), {0})"),
        ("c = Softmax(r) d = Add(x, c) y = Mul(d, r)", "Mul(Add(x, Softmax({0})), {0})"),
    ],
)
def test_a_view_that_a_reader_needs_stays_for_all(rewrite, operators, expected):
    shape = "1,1,5" if operators == "y = Mul(r, b)" else "N,4,5"
    text = f"""g ({X}, float[5] b) => (float[{shape}] y) <int64[2] lead = {{0, 1}}> {{
      r = Unsqueeze(b, lead)
      {operators}
    }}"""
    assert rewrite(ImplicitBroadcast(), HEAD + text) == [expected.format("Unsqueeze(b, [0, 1])")]


def test_matmul_broadcasts_its_batch_dimensions(rewrite):
    text = """g (float[N,4,5] x, float[5,6] w) => (float[N,4,6] y) <int64[3] one = {1, 5, 6}> {
      n = Shape<start = 0, end = 1>(x)
      rest = Constant<value_ints = [5, 6]>()
      shape = Concat<axis = 0>(n, rest)
      e = Expand(w, shape)
      y = MatMul(x, e)
    }"""
    assert rewrite(ImplicitBroadcast(), HEAD + text) == ["MatMul(x, w)"]


def test_labels_that_differ_do_not_broadcast(rewrite):
    text = """g (float[N] x, float[1] b, int64[1] m) => (float[K] y) {
      e = Expand(b, m)
      y = Add(x, e)
    }"""
    model = from_onnx_text(HEAD + text)
    ImplicitBroadcast()(model)
    assert [node.op_type for node in model.graph] == ["Expand", "Add"]


@pytest.mark.parametrize(
    ("given", "dims", "expected"),
    [
        ("", "1,3", "Add(x, [1.0, 2.0, 3.0])"),
        ("", "1,1,3", "Add(x, [1.0, 2.0, 3.0])"),
        ("", "2,3", "Add(x, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])"),
        (", float[1,3] w", "1,3", "Add(x, w)"),
    ],
)
def test_weights_lose_leading_axes_unless_callers_may_replace_them(rewrite, given, dims, expected):
    text = f"""
    <ir_version: 10, opset_import: ["": 23]>
    agraph (float[B,2,3] x{given}) => (float[B,2,3] y) <float[{dims}] w = {{{"1, 2, 3" if dims != "2,3" else "1, 2, 3, 4, 5, 6"}}}>
    {{ y = Add(x, w) }}"""
    assert rewrite(ImplicitBroadcast(), text) == [expected]
