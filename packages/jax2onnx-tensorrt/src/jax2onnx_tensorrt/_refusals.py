"""The refusal of models that TensorRT's ONNX parser does not read."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.legalise.kernels import operator_key
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import all_nodes, place_of

from jax2onnx_tensorrt._restrictions import violations
from jax2onnx_tensorrt._table import TYPES, legalisation, operators

__all__ = ["RefusalsPass", "problems"]

_MOST_AXES = 8
"""`nvinfer1::Dims::MAX_DIMS`."""

_INTERFACE = frozenset(map(ir.DataType.from_short_name, f"{TYPES} u8".split()))


class RefusalsPass(ir.passes.InPlacePass):
    """Look at a legalised model, and raise ConversionError with everything that the published table does not have.

    1. Inputs and outputs of other element types than float32, float16, bfloat16, int32, int64, uint8 and bool.
    2. Operators that are not in the table, or not with their element types.
    3. Attributes, ranks and operands that its last column excludes.
    4. Tensors of more than eight axes.
    5. Tensors of uint8 between operators.
    """

    def __init__(self, target: Target, version: str) -> None:
        super().__init__()
        self._name, self._version = target.name, version

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above; the model stays as it is."""
        found = list(dict.fromkeys(problems(model, self._version)))
        if found:
            raise ConversionError(
                f"TensorRT does not read this model (by its operator table of {self._version}):\n  " + "\n  ".join(found)
                + "\nLet the function take and give other types, or export with to_onnx(..., target='onnx') and see what the parser says."
            )  # fmt: skip
        return ir.passes.PassResult(model, modified=False)


def problems(model: ir.Model, version: str) -> Iterator[str]:
    """The nodes and types of a model that the operator table of a version does not have.

    Args:
      model: a model.
      version: one of the versions whose tables are known, see `jax2onnx_tensorrt.TensorRt.versions`.
    """
    for what, values in (("input", model.graph.inputs), ("output", model.graph.outputs)):
        for value in values:
            if value.dtype is not None and value.dtype not in _INTERFACE:
                yield f"The {what} {value.name!r} is {value.dtype.numpy()}, which TensorRT does not have."
    opset = opset_of(model)
    for node in all_nodes(model):
        yield from (f"{problem} ({place_of(node)})" for problem in _of_node(node, opset, version))


def _of_node(node: ir.Node, opset: int, version: str) -> Iterator[str]:
    """The problems of a node: what the table does not have of it."""
    if node.domain:
        yield f"{node.domain}.{node.op_type}, an operator that is not of the standard"
        return
    axes = max((len(dims_of(value) or ()) for value in (*node.inputs, *node.outputs) if value is not None), default=0)
    if axes > _MOST_AXES:
        yield f"{node.op_type} of {axes} axes; there are at most {_MOST_AXES}"
    if any(value.dtype == ir.DataType.UINT8 and value.uses() for value in node.outputs):
        yield f"{node.op_type} whose uint8 result is read by another operator"
    if node.op_type not in operators(version):
        yield node.op_type
        return
    yield from (f"{node.op_type} with {what}" for what in violations(node))
    lacking = legalisation(version).table.lacks(node, opset)
    yield from (f"{operator_key(node)} of {dtype.numpy()}" for dtype in lacking)
