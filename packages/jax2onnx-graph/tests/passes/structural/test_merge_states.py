from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.merge_states import MergeStates
from onnx.reference import ReferenceEvaluator

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
LOOP = """g (int64 n, float[3] x, float[3] z) => (float[3] y1, float[3] y2, float[3] y3) {{
    c = Constant<value = bool {{1}}>()
    y1, y2, y3 = Loop(n, c, {before})<
        body = b (int64 i, bool d, float[3] p, float[3] q, float[3] r) => (bool e, float[3] p2, float[3] q2, float[3] r2) {{
            e = Identity(d) {body}
        }}>
}}"""


def _merged(body, before="x, x, z"):
    """The model before and after, and the number of states that are left."""
    model = ir.from_onnx_text(HEAD + LOOP.format(body=body, before=before))
    original = ir.to_proto(model)
    MergeStates()(model)
    loop = next(node for node in model.graph if node.op_type == "Loop")
    return original, ir.to_proto(model), len(loop.inputs) - 2


@pytest.mark.parametrize("count", [0, 1, 3])
def test_states_that_begin_and_go_on_equal_are_one(count):
    original, made, states = _merged("p2 = Sin(p) q2 = Sin(q) a = Add(p, q) r2 = Add(r, a)")
    assert states == 2
    feeds = {"n": np.int64(count), "x": np.arange(3, dtype=np.float32), "z": np.array([np.nan, -0.0, 2], np.float32)}
    onnx.checker.check_model(made)
    for right, left in zip(*(ReferenceEvaluator(m).run(None, feeds) for m in (original, made)), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("p2 = Sin(p) q2 = Sin(q) r2 = Neg(r)", "x, z, z"),
        ("p2 = Sin(p) q2 = Cos(q) r2 = Neg(r)", "x, x, z"),
        ("p2 = Sin(p) q2 = Sin(r) r2 = Neg(r)", "x, x, z"),
        ("p2 = RandomNormalLike(p) q2 = RandomNormalLike(q) r2 = Neg(r)", "x, x, z"),
    ],
    ids=["begin", "operator", "operand", "random"],
)
def test_states_that_may_differ_stay(body, before):
    assert _merged(body, before)[2] == 3


def test_a_difference_that_comes_later_parts_states():
    assert _merged("p2 = Identity(q) q2 = Identity(r) r2 = Neg(r)", "x, x, x")[2] == 3


def test_states_may_be_equal_through_each_other():
    assert _merged("p2 = Sin(q) q2 = Sin(p) r2 = Sin(r)", "x, x, x")[2] == 1


def test_states_of_a_scan():
    text = """g (float[3] x, float[4,3] s) => (float[3] y, float[3] z, float[4,3] w) {
        y, z, w = Scan<num_scan_inputs = 1, body = b (float[3] p, float[3] q, float[3] r) =>
            (float[3] p2, float[3] q2, float[3] t) { p2 = Add(p, r) q2 = Add(q, r) t = Mul(p, q) }>(x, x, s)
    }"""
    model = ir.from_onnx_text(HEAD + text)
    MergeStates()(model)
    made = ir.to_proto(model)
    onnx.checker.check_model(made)
    scan = next(node for node in model.graph if node.op_type == "Scan")
    assert (len(scan.inputs), len(scan.outputs)) == (2, 2)
    x, s = np.ones(3, np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    y, z, w = ReferenceEvaluator(made).run(None, {"x": x, "s": s})
    np.testing.assert_array_equal(y, 1 + s.sum(0))
    np.testing.assert_array_equal(z, y)
    np.testing.assert_array_equal(w, (1 + np.cumsum(s, 0) - s) ** 2)
