"""Weights in blocks of few bits, computed in the model's own type: `MatMulNBits`."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.deployment.quantization import Quantization

from jax2onnx_onnxruntime._compat import block_quantizer
from jax2onnx_onnxruntime.quantization.prepare import plain_proto

__all__ = ["blocked_weights"]


def blocked_weights(model: ir.Model, request: Quantization, excluded: frozenset[str]) -> ir.Model:
    """The model with `MatMulNBits` in place of each MatMul with a weight."""
    quantizer = block_quantizer()(
        plain_proto(model), bits=int(request.mode.removeprefix("int")), block_size=request.weights_per_scale,
        nodes_to_exclude=sorted(excluded), op_types_to_quantize=("MatMul",),
    )  # fmt: skip
    quantizer.process()
    return ir.from_proto(quantizer.model.model)
