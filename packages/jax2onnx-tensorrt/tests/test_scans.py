"""Scans without states get one, which nothing reads; everything else stays."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_tensorrt._scans import ScansPass
from onnx.reference import ReferenceEvaluator

STATELESS = "y = Scan<num_scan_inputs = 1, body = b (float[2] r) => (float[2] t) { t = Neg(r) }>(x)"
TWO_INPUTS = "y = Scan<num_scan_inputs = 2, body = b (float[2] r, float[2] q) => (float[2] t) { t = Mul(r, q) }>(x, x)"
WITH_STATE = "zero = Constant<value = float[2] {0, 0}>() last, y = Scan<num_scan_inputs = 1, body = b (float[2] s, float[2] r) => (float[2] n, float[2] t) { n = Add(s, r) t = Neg(n) }>(zero, x)"
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def model_of(body: str) -> ir.Model:
    text = f'<ir_version: 10, opset_import: ["" : 20, "own" : 1]> g (float[3,2] x) => (float[3,2] y) {{ {body} }}'
    return ir.from_onnx_text(text)


@pytest.mark.parametrize("body", [STATELESS, TWO_INPUTS])
def test_a_scan_without_states_gets_one(body: str) -> None:
    model = model_of(body)
    (wanted,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": X})
    assert ScansPass()(model).modified
    (scan,) = (node for node in model.graph if node.op_type == "Scan")
    graph = scan.attributes["body"].as_graph()
    assert len(scan.inputs) - scan.attributes.get_int("num_scan_inputs", 0) == 1
    assert (len(graph.inputs), len(graph.outputs)) == (len(scan.inputs), len(scan.outputs))
    (got,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": X})
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("body", [WITH_STATE, "c = Constant<value = float {2}>() y = Mul(x, c)", "y = own.Scan(x)"])
def test_everything_else_stays(body: str) -> None:
    model = model_of(body)
    before = ir.to_proto(model)
    assert not ScansPass()(model).modified
    assert ir.to_proto(model) == before
