"""Weights in blocks of few bits: `MatMulNBits`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.build.attributes import Attribute, attribute_values
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.progress import steps
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_runtime.mixed_bits import FULL_PRECISION
from jax2onnx_runtime.quantization import Quantization, WeightMemory

from jax2onnx_onnxruntime._compat import block_quantizer
from jax2onnx_onnxruntime._quantization.joined_products import JoinedProductsPass

__all__ = ["BlockedWeights", "QuantisedWeight", "blocked_weights", "quantisable_weight", "requested_bits"]

# Products of integers: inside a product, activations are rounded to 8 bits in blocks. In float32 ("1"), measured, a row times
# 4-bit weights takes four times as long, times 8-bit weights seventy times, and the results are hardly nearer.
_ACCURACY_LEVEL = 4
_OPERANDS = ("blocks", "scales", "zero_points")  # of MatMulNBits, behind the activation


def requested_bits(request: Quantization) -> int:
    """The number of bits of the mode of a request."""
    return int(request.mode.removeprefix("int"))


@dataclasses.dataclass(frozen=True)
class QuantisedWeight:
    """A weight as MatMulNBits takes it.

    Attributes:
      operands: the tensors behind the activation, by what they are.
      attributes: the attributes of the operator.
    """

    operands: Mapping[str, ir.TensorProtocol]
    attributes: Mapping[str, Attribute]

    @property
    def bytes(self) -> int:
        """The bytes that it takes."""
        return sum(tensor.nbytes for tensor in self.operands.values())


class BlockedWeights:
    """The weights of a model in blocks, each of which is quantised once to so many bits.

    Args:
      block_size: the number of weights of a column that share a scale.
      memory: the quantised weights of other models.
    """

    def __init__(self, block_size: int, memory: WeightMemory | None = None) -> None:
        self._block_size, self._memory = block_size, memory
        self._made: dict[tuple[str, int], QuantisedWeight] = {}

    def get(self, weight: ir.Value, bits: int) -> QuantisedWeight:
        """A weight in so many bits; ONNX Runtime's quantizer gets one at a time, so that models may be larger than 2 GiB."""
        key = weight.name or "", bits
        if key not in self._made:
            self._made[key] = self._quantised(weight, bits)
        return self._made[key]

    def _quantised(self, weight: ir.Value, bits: int) -> QuantisedWeight:
        tensor = constant_tensor(weight)
        assert tensor is not None
        if self._memory is None:
            return _quantised(tensor, bits, self._block_size)
        how = "blocks", bits, self._block_size
        return self._memory.get(tensor, how, lambda: _quantised(tensor, bits, self._block_size))


def blocked_weights(
    model: ir.Model, request: Quantization, excluded: frozenset[str], weights: BlockedWeights | None = None
) -> ir.Model:
    """The model with `MatMulNBits` in place of each MatMul with a weight, one for all weights of an activation."""
    model.opset_imports["com.microsoft"] = 1
    weights = weights or BlockedWeights(request.weights_per_scale, request.memory)
    for graph_pass in (_BlockedProducts(request, excluded, weights), JoinedProductsPass()):
        graph_pass(model)
    return model


def quantisable_weight(node: ir.Node, excluded: frozenset[str]) -> ir.Value | None:
    """The weight of a product that is not left out; None for other nodes."""
    if node.op_type != "MatMul" or node.domain or node.name in excluded:
        return None
    tensor = constant_tensor(node.inputs[1])
    is_matrix = tensor is not None and tensor.dtype == ir.DataType.FLOAT and len(tensor.shape) == 2
    return node.inputs[1] if is_matrix else None


class _BlockedProducts(GraphPass):
    """Products with weights, but for those that are left out, with quantised ones.

    1. `MatMul(x, w)` becomes `MatMulNBits(x, blocks, scales, zero points)` with the bits that the request has for the weight.
    """

    def __init__(self, request: Quantization, excluded: frozenset[str], weights: BlockedWeights) -> None:
        super().__init__()
        self._excluded, self._weights = excluded, weights
        self._bits, self._usual = request.bits or {}, requested_bits(request)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        nodes = [(node, self._weight(node)) for node in editor.nodes()]
        for node, weight in steps("quantise", [(node, weight) for node, weight in nodes if weight is not None]):
            bits = self._bits.get(weight.name or "", self._usual)
            quantised = self._weights.get(weight, bits)
            name, result = node.outputs[0].name, node.outputs[0]
            suffix = "" if bits == self._usual else f"{bits}"
            operands = [editor.derived(weight, t, f"{what}{suffix}") for what, t in quantised.operands.items()]
            (replacement,) = editor.before(node).emit(
                "MatMulNBits", [node.inputs[0], *operands], "com.microsoft", 1, [np.float32],
                labelled(dims_of(result) or ()), dict(quantised.attributes),
            )  # fmt: skip
            editor.replace(node, replacement)
            replacement.name = name

    def _weight(self, node: ir.Node) -> ir.Value | None:
        weight = quantisable_weight(node, self._excluded)
        return None if weight is None or self._bits.get(weight.name or "") == FULL_PRECISION else weight


def _quantised(tensor: ir.TensorProtocol, bits: int, block_size: int) -> QuantisedWeight:
    rows, columns = tensor.shape.numpy()
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]> g (float[1,{rows}] x) => (float[1,{columns}] y) {{ y = MatMul(x, w) }}'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(tensor.numpy(), "w"))
    quantizer = block_quantizer()(
        model, bits=bits, block_size=block_size, accuracy_level=_ACCURACY_LEVEL, op_types_to_quantize=("MatMul",)
    )
    quantizer.process()
    product = ir.from_proto(quantizer.model.model).graph.node(0)
    found = zip(_OPERANDS, map(constant_tensor, product.inputs[1:]), strict=True)
    return QuantisedWeight({what: t for what, t in found if t is not None}, attribute_values(product))
