"""Types and shapes of the values that quantizers make: those that ONNX's own inference finds, with labels."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.labels import count_labels
from jax2onnx_graph.traversal import walk
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_onnxruntime.target import OnnxRuntime
from jax2onnx_runtime.quantization import Mode, Quantization
from onnx_ir.passes.common import ShapeInferencePass

quantize = functools.partial(OrtRuntime().quantize, target=OnnxRuntime())
RNG = np.random.default_rng(0)

MODELS = {
    "a product": ("float[B,T,8] x", (8, 8), "y = MatMul(x, w)", (2, 3, 8)),
    "a product of one row": ("float[8] x", (8, 8), "y = MatMul(x, w)", (8,)),
    "a convolution": ("float[B,3,9,7] x", (4, 3, 3, 3), "c = Conv<kernel_shape=[3,3]>(x, w) y = Relu(c)", (2, 3, 9, 7)),
    "a product in a branch": (
        "float[B,8] x", (8, 8),
        """n = ReduceSum<keepdims=0>(x) z = Constant<value_float=0.0>() q = Greater(n, z)
        y = If(q)<then_branch = t () => (float[B,8] a) { a = MatMul(x, w) }, else_branch = e () => (float[B,8] b) { b = Neg(x) }>""",
        (2, 8),
    ),
}  # fmt: skip


def made(name: str) -> ir.Model:
    head, weight, body, _ = MODELS[name]
    shape = ",".join(map(str, weight))
    model = ir.from_onnx_text(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({head}, float[{shape}] w) => (y) {{ {body} }}'
    )
    value = model.graph.inputs.pop()
    value.const_value = ir.Tensor(RNG.normal(size=weight).astype(np.float32), name="w")
    model.graph.register_initializer(value)
    ShapeInferencePass()(model)
    return model


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mode", ["dynamic_int8", "static_int8"])
def test_new_values_have_types_shapes_and_labels(name: str, mode: Mode) -> None:
    model = made(name)
    x = RNG.normal(size=MODELS[name][3]).astype(np.float32)
    request = Quantization(mode, calibration=[{"x": x}] if mode == "static_int8" else None)
    before, few = count_labels(model), quantize(model, request)
    found = count_labels(few)
    assert found.symbolic - found.labelled <= before.symbolic - before.labelled
    values = [value for node in walk(few.graph) for value in node.outputs]
    assert all(value.dtype is not None and value.shape is not None for value in values)
    onnx.checker.check_model(ir.to_proto(few), full_check=True)
