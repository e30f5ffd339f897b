"""Weights in blocks of few bits: `MatMulNBits`."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.deployment.quantization import Quantization

from jax2onnx_onnxruntime._compat import block_quantizer
from jax2onnx_onnxruntime.quantization.joined_products import JoinedProductsPass
from jax2onnx_onnxruntime.quantization.prepare import plain_proto

__all__ = ["blocked_weights"]

# Products of integers: inside a product, activations are rounded to 8 bits in blocks. In float32 ("1"), measured, a row times
# 4-bit weights takes four times as long, times 8-bit weights seventy times, and the results are hardly nearer.
_ACCURACY_LEVEL = 4


def blocked_weights(model: ir.Model, request: Quantization, excluded: frozenset[str]) -> ir.Model:
    """The model with `MatMulNBits` in place of each MatMul with a weight, one for all weights of an activation."""
    quantizer = block_quantizer()(
        plain_proto(model), bits=int(request.mode.removeprefix("int")), block_size=request.weights_per_scale,
        accuracy_level=_ACCURACY_LEVEL, nodes_to_exclude=sorted(excluded), op_types_to_quantize=("MatMul",),
    )  # fmt: skip
    quantizer.process()
    result = ir.from_proto(quantizer.model.model)
    JoinedProductsPass()(result)
    return result
