"""Models in fewer bits for TensorRT: what its table has for them, and values in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_runtime.quantization import Mode


class Network(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 8, (3, 3), strides=2, bias_init=nnx.initializers.normal(), rngs=rngs)
        self.head = nnx.Linear(8, 4, bias_init=nnx.initializers.normal(), rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.conv(x)).mean((1, 2)))


IMAGES = np.random.default_rng(0).uniform(0.5, 2.0, (2, 8, 8, 3)).astype(np.float32)


def program(mode: Mode) -> OnnxProgram:
    """The network in a mode, whose activations are all above zero."""
    calibration = [(IMAGES,)] if mode == "static_int8" else None
    return to_onnx(Network(nnx.Rngs(0)), [("B", 8, 8, 3)], target="tensorrt").quantize(mode, calibration=calibration)


def test_scales_have_no_zero_points_and_biases_are_floats():
    scaled = [
        node
        for node in all_nodes(program("static_int8").model)
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
    ]
    assert scaled
    for node in scaled:
        zero = constant_tensor(node.inputs[2]) if len(node.inputs) > 2 else None
        assert zero is None or not zero.numpy().any()
        assert ir.DataType.INT32 not in {value.dtype for value in node.inputs if value is not None}


@pytest.mark.parametrize(
    ("mode", "noise"),
    [("static_int8", 0.03), ("int4_qdq", 0.1), ("float8", 0.05), ("float16", 0.002), ("bfloat16", 0.02)],
)
def test_its_results_are_close(mode, noise):
    want = np.asarray(Network(nnx.Rngs(0))(IMAGES))
    np.testing.assert_allclose(program(mode)(IMAGES), want, atol=noise * np.abs(want).max())


@pytest.mark.parametrize(
    ("mode", "operator"), [("int4", "MatMulNBits"), ("int8", "MatMulNBits"), ("dynamic_int8", "DynamicQuantizeLinear")]
)
def test_what_tensorrt_does_not_read_is_refused(mode, operator):
    with pytest.raises(ConversionError, match=operator):
        program(mode)
