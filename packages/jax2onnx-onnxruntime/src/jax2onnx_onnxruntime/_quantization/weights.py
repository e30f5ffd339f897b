"""Weights in blocks of few bits: `MatMulNBits`."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.progress import steps
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_runtime.quantization import Quantization

from jax2onnx_onnxruntime._compat import block_quantizer
from jax2onnx_onnxruntime._quantization.joined_products import JoinedProductsPass

__all__ = ["blocked_weights"]

# Products of integers: inside a product, activations are rounded to 8 bits in blocks. In float32 ("1"), measured, a row times
# 4-bit weights takes four times as long, times 8-bit weights seventy times, and the results are hardly nearer.
_ACCURACY_LEVEL = 4
_OPERANDS = ("blocks", "scales", "zero_points")  # of MatMulNBits, behind the activation


def blocked_weights(model: ir.Model, request: Quantization, excluded: frozenset[str]) -> ir.Model:
    """The model with `MatMulNBits` in place of each MatMul with a weight, one for all weights of an activation."""
    model.opset_imports["com.microsoft"] = 1
    for graph_pass in (_BlockedWeights(request, excluded), JoinedProductsPass()):
        graph_pass(model)
    return model


class _BlockedWeights(GraphPass):
    """Products with weights, but for those that are left out, with quantised ones.

    1. `MatMul(x, w)` becomes `MatMulNBits(x, blocks, scales, zero points)`. ONNX Runtime's quantizer gets one weight at a time, so
       that the model may be larger than the 2 GiB of a message of protocol buffers.
    """

    def __init__(self, request: Quantization, excluded: frozenset[str]) -> None:
        super().__init__()
        self._request, self._excluded = request, excluded
        self._quantised: dict[ir.Value, ir.Model] = {}

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in steps("quantise", [node for node in editor.nodes() if self._is_chosen(node)]):
            activation, weight = node.inputs
            assert activation is not None
            assert weight is not None
            if weight not in self._quantised:
                self._quantised[weight] = _quantised(weight, self._request)
            product = self._quantised[weight].graph.node(0)
            operands = [
                editor.derived(weight, tensor, what)
                for what, value in zip(_OPERANDS, product.inputs[1:], strict=True)
                if (tensor := constant_tensor(value)) is not None
            ]
            name, result = node.outputs[0].name, node.outputs[0]
            (replacement,) = editor.before(node).emit(
                product.op_type, [activation, *operands], product.domain, 1, [np.float32],
                labelled(dims_of(result) or ()), attribute_values(product),
            )  # fmt: skip
            editor.replace(node, replacement)
            replacement.name = name

    def _is_chosen(self, node: ir.Node) -> bool:
        if node.op_type != "MatMul" or node.domain or node.name in self._excluded:
            return False
        tensor = constant_tensor(node.inputs[1])
        return tensor is not None and tensor.dtype == ir.DataType.FLOAT and len(tensor.shape) == 2


def _quantised(weight: ir.Value, request: Quantization) -> ir.Model:
    """A model that is one product with the quantised weight."""
    tensor = constant_tensor(weight)
    assert tensor is not None
    rows, columns = tensor.shape.numpy()
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> g (float[1,{rows}] x) => (float[1,{columns}] y) {{ y = MatMul(x, w) }}'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(tensor.numpy(), "w"))
    quantizer = block_quantizer()(
        model, bits=int(request.mode.removeprefix("int")),
        block_size=request.weights_per_scale, accuracy_level=_ACCURACY_LEVEL, op_types_to_quantize=("MatMul",),
    )  # fmt: skip
    quantizer.process()
    return ir.from_proto(quantizer.model.model)
