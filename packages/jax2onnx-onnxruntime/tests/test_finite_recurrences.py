"""Recurrent operators whose states are not finite, in types without a kernel."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_onnxruntime import OnnxRuntime
from jax2onnx_onnxruntime.loading import load
from onnx.reference import ReferenceEvaluator


@pytest.mark.parametrize("dtype", ["float16", "double"])
@pytest.mark.parametrize("width", [4, 3], ids=["LSTM", "GRU"])
def test_the_guard_is_computed_in_the_type_of_the_kernel(dtype, width):
    states, given = {4: ("h0, c0", f"{dtype}[1,3,5] h0, {dtype}[1,3,5] c0"), 3: ("h0", f"{dtype}[1,3,5] h0")}[width]
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 22]>
        g ({dtype}[4,3,2] x, {dtype}[1,{width * 5},2] w, {dtype}[1,{width * 5},5] r, {given}) => ({dtype}[4,1,3,5] y) {{
            y = {"LSTM" if width == 4 else "GRU"}<hidden_size = 5>(x, w, r, , , {states}) }}""")
    rng = np.random.default_rng(0)
    operands = {str(x.name): rng.normal(size=x.shape.numpy()).astype(x.dtype.numpy()) for x in model.graph.inputs}
    operands["h0"][0, 1, 2] = -np.inf
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(ir.to_proto(model)).run(None, operands)
    for factory in OnnxRuntime().passes():
        model = factory(OnnxRuntime())(model).model
    make_names_unique(model)
    assert "If" in [node.op_type for node in model.graph]
    (computed, *_) = load(model)(operands)
    np.testing.assert_allclose(np.asarray(computed), np.asarray(wanted), rtol=2e-2, atol=2e-3)
