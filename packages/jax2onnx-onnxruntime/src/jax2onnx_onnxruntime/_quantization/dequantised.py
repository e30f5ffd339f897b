"""Weights of few bits in standard operators: `DequantizeLinear` in front of each product."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.opsets import raise_opset
from jax2onnx_graph.progress import steps
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_runtime.quantization import Quantization

from jax2onnx_onnxruntime._quantization.weights import quantisable_weight
from jax2onnx_onnxruntime.loading import load

__all__ = ["dequantised_weights", "stored"]

# The first opset whose DequantizeLinear takes blocks, and 4 bits.
_OPSET = 21
#: How much noise a product may have beside that with the weights of the file: activations may be rounded to 8 bits in blocks.
_NOISE = 0.03


def dequantised_weights(model: ir.Model, request: Quantization, excluded: frozenset[str], target: Target) -> ir.Model:
    """The model with `DequantizeLinear` of weights in few bits in front of each product.

    Raises:
      TargetError: a node means something else at the opset that this needs, or the runtime computes with other weights than
        the file has.
    """
    raise_opset(model, _OPSET)
    _check_runtime(request)
    _DequantisedWeights(request, excluded, target)(model)
    return model


@dataclasses.dataclass(frozen=True)
class Stored:
    """A weight as DequantizeLinear takes it.

    Attributes:
      numbers: the weight, divided by the scales and rounded.
      scales: the factors of the numbers.
      attributes: the attributes of the operator.
    """

    numbers: Array
    scales: Array
    attributes: dict[str, int]

    def restored(self) -> Array:
        """The weight that a product reads."""
        size = self.attributes.get("block_size")
        scales = self.scales if size is None else np.repeat(self.scales, size, axis=0)[: len(self.numbers)]
        return self.numbers.astype(np.float32) * scales


def stored(weight: Array, request: Quantization) -> Stored:
    """A weight in few bits: whole numbers of 4 bits, with a scale for each block of a column, or float8 (E4M3), with one for each column."""
    if request.mode == "float8":
        scales = _scale(weight, 0, 448.0)
        return Stored((weight / scales).astype(ml_dtypes.float8_e4m3fn), scales, {"axis": 1})
    size, (rows, columns) = request.weights_per_scale, weight.shape
    blocks = np.pad(weight, ((0, -rows % size), (0, 0))).reshape(-1, size, columns)
    scales = _scale(blocks, 1, 7.0)
    numbers = np.rint(blocks / scales[:, None]).reshape(-1, columns)[:rows].astype(ml_dtypes.int4)
    return Stored(numbers, scales, {"axis": 0, "block_size": size})


def _scale(weight: Array, axis: int, largest: float) -> Array:
    """The numbers by which the largest along an axis are divided to be `largest`, at least the smallest that has all its digits.

    A larger one for weights of 0 would not do: the kernel takes the difference of two products with it.
    """
    scales = (np.abs(weight).max(axis=axis, initial=0.0) / largest).astype(np.float32)
    return np.maximum(scales, np.finfo(np.float32).smallest_normal)


class _DequantisedWeights(GraphPass):
    """Products with weights, but for those that are left out, with dequantised ones.

    ONNX Runtime computes a product with 4 bits as they are where nothing else reads the weight, and where not a Relu or Clip alone
    reads the product with its bias; else it dequantises the weight at each call. Float8 it dequantises always.

    1. `MatMul(x, w)` becomes `MatMul(x, DequantizeLinear(numbers, scales))`, once for all products of a weight in a graph.
    2. In its graph, `Relu(y)` of a product `y` with 4 bits, or of a sum with it, becomes `Max(y, 0)`, `Clip(y, a, b)` becomes `Min(Max(y, a), b)`,
       where these keep NaN.
    """

    def __init__(self, request: Quantization, excluded: frozenset[str], target: Target = standard_target) -> None:
        super().__init__(target)
        self._request, self._excluded = request, excluded

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        made: dict[ir.Value, ir.Value] = {}
        nodes = [(node, quantisable_weight(node, self._excluded)) for node in editor.nodes()]
        for node, weight in steps("quantise", [(node, weight) for node, weight in nodes if weight is not None]):
            if weight not in made:
                made[weight] = self._dequantised(editor, node, weight)
            node.replace_input_with(1, made[weight])
            editor.modified = True
            if self._request.mode == "int4_qdq":
                self._without_relu(editor, node.outputs[0])

    def _dequantised(self, editor: GraphEditor, node: ir.Node, weight: ir.Value) -> ir.Value:
        """A weight in few bits, dequantised before the product."""
        tensor = constant_tensor(weight)
        assert tensor is not None
        few = stored(tensor.numpy(), self._request)
        tensors = {"numbers": ir.Tensor(few.numbers), "scales": ir.Tensor(few.scales)}
        builder = editor.before(node)
        if editor.is_nested:  # where the runtime looks for the numbers in the graph of the product alone
            operands = [builder.op.Constant(value=tensor, dtype=tensor.dtype.numpy()) for tensor in tensors.values()]
        else:
            operands = [editor.derived(weight, tensor, what) for what, tensor in tensors.items()]
        (result,) = builder.emit(
            "DequantizeLinear", operands, "", 1, [np.float32], labelled(dims_of(weight) or ()), dict(few.attributes)
        )
        return result

    def _without_relu(self, editor: GraphEditor, product: ir.Value) -> None:
        """Write a Relu or Clip of a product, or of a sum with it, in another form."""
        if not all(editor.guarantees(operator, product, "nan") for operator in ("Max", "Min")):
            return
        for reader, _ in product.uses():
            if reader.graph is not editor.graph or reader.domain or reader.op_type not in ("Add", "Clip", "Relu"):
                continue
            if reader.op_type == "Add":
                self._without_relu(editor, reader.outputs[0])
            elif reader.op_type == "Relu":
                editor.put(reader, "Max", [product, editor.constant(np.zeros((), np.float32))])
            elif len(reader.inputs) == 3 and None not in reader.inputs:
                least, most = reader.inputs[1:]
                editor.put(reader, "Min", [editor.before(reader).op.Max(product, least), most])


def _check_runtime(request: Quantization) -> None:
    """Raise TargetError unless the runtime computes a product with the weights that a file has."""
    rng = np.random.default_rng(0)
    weight, rows = rng.normal(size=(2 * request.weights_per_scale, 16)).astype(np.float32), 4
    few = stored(weight, request)
    x = rng.normal(size=(rows, len(weight))).astype(np.float32)
    size = len(weight)
    model = ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : {_OPSET}]> g (float[{rows},{size}] x, float[{size},16] w) => (float[{rows},16] y) '
        "{ y = MatMul(x, w) }"
    )
    value = model.graph.inputs.pop()
    value.const_value = ir.Tensor(weight, name="w")
    model.graph.register_initializer(value)
    model.graph.node(0).name = "product"
    _DequantisedWeights(request, frozenset())(model)
    (found,) = load(model)({"x": x})
    wanted = x @ few.restored()
    noise = float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
    if not noise <= _NOISE:
        raise TargetError(
            f"This ONNX Runtime computes products with weights in {request.mode} that differ from those of the file by {noise:.0%}, so that "
            'precision would be dropped silently. Take mode "int8" or "float16".'
        )
