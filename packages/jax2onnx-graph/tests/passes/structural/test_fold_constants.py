from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


@pytest.mark.parametrize(
    ("operators", "shape", "expected"),
    [
        ("s = Shape(x)", 3, None),
        ("s = Shape<start = 1>(x)", 2, "Identity([-4, -5])"),
        ("a = Shape(x) s = Gather(a, last)", 1, "Identity([-5])"),
        ("a = Shape(x) s = Slice(a, one, three)", 2, "Identity([-4, -5])"),
        ("a = Shape<start = 1>(x) s = ReduceProd<keepdims = 1>(a)", 1, "Identity([-20])"),
        ("a = Shape<start = 1>(x) b = Mul(a, three) s = Concat<axis = 0>(b, one)", 3, "Identity([-12, -15, -1])"),
        ("a = Neg(three) b = Div(a, two) c = Mod(a, two) s = Concat<axis = 0>(b, c)", 2, "Identity([1, -1])"),
        ("a = Cast<to = 6>(three) b = Cast<to = 7>(a) s = Unsqueeze(b, zero)", "1,1", "Identity([[-3]])"),
        ("a = Greater(three, two) s = Where(a, one, two)", 1, "Identity([-1])"),
    ],
)
def test_shape_arithmetic_is_evaluated(rewrite, operators, shape, expected):
    text = f"""g (float[N,4,5] x) => (int64[{shape}] y)
      <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}}, int64[1] last = {{-1}}> {{
      {operators}
      y = Neg(s)
    }}"""
    assert rewrite(FoldConstants(), HEAD + text) == [
        expected or "Neg(Shape(x))"
    ]  # an output cannot be a constant itself
