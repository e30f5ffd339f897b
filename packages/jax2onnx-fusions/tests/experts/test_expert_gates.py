"""Gates that are one column of an array of gates, however the column is taken."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._expert_gates import expert_gate
from onnx_ir.passes.common import ShapeInferencePass

HEAD = """n = Constant<value = int64[4] {0, 1, 2, 3}>() e = Equal(i, n) g = Cast<to = 1>(e)
    one = Constant<value = int64 {1}>() last = Constant<value = int64 {-1}>() two = Constant<value = int64[2] {1, 2}>()
    a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>() a2 = Constant<value = int64[1] {2}>()
    a3 = Constant<value = int64[1] {3}>() s = Constant<value = int64[3] {2, 1, 1}>() """


def gate_of(body: str) -> tuple[int | None, int] | None:
    """The axis and the number of the gate y."""
    text = f'<ir_version: 10, opset_import: ["" : 21]> m (int64[B,1] i, int64 k, float[B,4] x) => (float[B,1] y) {{ {HEAD} {body} }}'
    model = ir.from_onnx_text(text)
    model.graph.outputs[0].shape = None
    found = expert_gate(ShapeInferencePass()(model).model.graph.outputs[0])
    return None if found is None else (found.axis, found.number)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Gather<axis = 1>(g, one)", (1, 1)), ("y = Gather<axis = -1>(g, last)", (1, 3)), ("y = Gather<axis = 1>(g, two)", None),
        ("y = Gather<axis = 1>(g, k)", None), ("y = Gather<axis = 1>(x, one)", None),
        ("y = Slice(g, a1, a2, a1)", (1, 1)), ("y = Slice(g, a1, a3, a1)", None),
        ("y, b, c, f = Split<axis = 1, num_outputs = 4>(g)", (1, 0)), ("b, c, y, f = Split<axis = 1, num_outputs = 4>(g)", (1, 2)),
        ("y, b = Split<axis = 1, num_outputs = 2>(g)", None), ("b, y, c = Split<axis = 1>(g, s)", None),
        ("t = Gather<axis = 1>(g, one) y = Unsqueeze(t, a1)", (1, 1)),
    ],
)  # fmt: skip
def test_a_column_is_taken(body, expected):
    assert gate_of(body) == expected
