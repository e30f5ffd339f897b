"""Products of 8-bit integers, with activations scaled as they come or as calibrated."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.values import constant_tensor, operand
from jax2onnx_graph.forms import Form
from jax2onnx_graph.opsets import means_the_same, opset_of, raise_opset
from jax2onnx_graph.progress import steps
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_runtime.quantization import Quantization

from jax2onnx_onnxruntime._compat import quantization
from jax2onnx_onnxruntime._quantization.prepare import plain_proto
from jax2onnx_onnxruntime._quantization.recurrences import LiftedRecurrencesPass, LoweredRecurrencesPass
from jax2onnx_onnxruntime._quantization.selection import CONVOLUTIONS

__all__ = ["FEWEST", "WIDE", "can_be_wide", "dynamic_integers", "static_integers", "weights_in_integers"]

#: Bits of a product in static integers: those of its activations. Its weight has 8.
FEWEST, WIDE = 8, 16

# The quantizers advise to prepare a model, in a warning; this says that it is.
_PREPARED = "onnx.quant.pre_process"
_LARGE = 1_500_000_000
_WIDE_OPSET = 21
_WEIGHTED = ["MatMul", *CONVOLUTIONS]


def dynamic_integers(model: ir.Model, request: Quantization, excluded: frozenset[str]) -> ir.Model:
    """The model with `MatMulInteger`, `ConvInteger` and `DynamicQuantizeLSTM`, activations scaled at each call.

    Weights take seven bits, of which no processor's products overflow. Those of convolutions are unsigned, as there is
    no other kernel.
    """
    tools = quantization()
    LiftedRecurrencesPass()(model)
    proto = _ready(model)
    for operators, weight_type in ((("MatMul", "LSTM"), tools.QuantType.QInt8), (CONVOLUTIONS, tools.QuantType.QUInt8)):
        if any(node.op_type in operators for node in proto.graph.node):
            proto = _through_file(
                tools.quantize_dynamic, proto, op_types_to_quantize=list(operators), weight_type=weight_type,
                nodes_to_exclude=sorted(excluded), reduce_range=True, per_channel=weight_type == tools.QuantType.QInt8,
                extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
            )  # fmt: skip
            proto.metadata_props.add(key=_PREPARED, value="onnxruntime.quant")
    return LoweredRecurrencesPass()(ir.from_proto(proto)).model


def static_integers(model: ir.Model, request: Quantization, excluded: frozenset[str], target: Target) -> ir.Model:
    """The model with QuantizeLinear and DequantizeLinear around products with weights and convolutions.

    Norms, softmax and products of two activations stay in float32: there masks and outliers would spoil the scales.
    """
    tools, bits = quantization(), request.bits or {}
    is_symmetric = target.prefers(Form.PRODUCT_WITH_ZERO_POINTS, Form.SYMMETRIC_PRODUCT) is Form.SYMMETRIC_PRODUCT
    few = tools.QuantType.QInt8 if is_symmetric else tools.QuantType.QUInt8
    nodes = {name: bits.get(weight.name or "", FEWEST) for name, weight in weights_in_integers(model, excluded).items()}
    if WIDE in nodes.values():
        raise_opset(model, _WIDE_OPSET)
    proto = _ready(model)
    for width, activations in ((WIDE, tools.QuantType.QUInt16), (FEWEST, few)):
        chosen = [name for name, found in nodes.items() if found == width]
        if chosen:
            proto = _through_file(
                tools.quantize_static, proto, calibration_data_reader=_Reader(request.calibration or ()),
                op_types_to_quantize=_WEIGHTED, nodes_to_quantize=chosen, per_channel=True,
                reduce_range=width == FEWEST and not is_symmetric, activation_type=activations, weight_type=tools.QuantType.QInt8,
                extra_options={"ActivationSymmetric": is_symmetric, "QuantizeBias": not is_symmetric},
            )  # fmt: skip
            proto.metadata_props.add(key=_PREPARED, value="onnxruntime.quant")
    return ir.from_proto(proto)


def can_be_wide(model: ir.Model) -> bool:
    """Whether a model may declare the opset whose QuantizeLinear gives 16 bits."""
    opset = opset_of(model)
    same = (node.domain or means_the_same(node, _WIDE_OPSET, opset) for node in all_nodes(model))
    return opset >= _WIDE_OPSET or all(same)


def weights_in_integers(model: ir.Model, excluded: frozenset[str]) -> dict[str, ir.Value]:
    """The weight of each product and convolution that static integers take, by the name of the node."""
    found = {}
    for node in model.graph:
        weight = operand(node, 1) if node.op_type in _WEIGHTED else None
        if weight is not None and node.name not in excluded and constant_tensor(weight) is not None:
            found[node.name or ""] = weight
    return found


class _Reader:
    """Calibration data as ONNX Runtime asks for it: one run after another, then None."""

    def __init__(self, runs: Sequence[Mapping[str, Array]]) -> None:
        self._runs = iter(steps("calibrate", runs))

    def get_next(self) -> dict[str, Array] | None:
        """The inputs of the next run."""
        run = next(self._runs, None)
        return None if run is None else dict(run)


def _ready(model: ir.Model) -> onnx.ModelProto:
    proto = plain_proto(model)
    proto.metadata_props.add(key=_PREPARED, value="onnxruntime.quant")
    return proto


def _through_file(quantize: Callable[..., None], proto: onnx.ModelProto, **options: object) -> onnx.ModelProto:
    """Run a quantizer that reads and writes files on a model, and return its result."""
    size = sum(len(tensor.raw_data) for tensor in proto.graph.initializer)
    with tempfile.TemporaryDirectory(prefix="jax2onnx-") as folder:
        path = Path(folder) / "quantised.onnx"
        quantize(proto, path, use_external_data_format=size > _LARGE, **options)
        return onnx.load(path)
