"""The refusal of models that OpenVINO's CPU plugin would compute wrong."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.values import constant_tensor, dims_of, operand
from jax2onnx_graph.legalise.kernels import operator_key
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.rewrite.patterns import source_of
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_graph.traversal import all_nodes, place_of, subgraphs, walk

from jax2onnx_openvino._support import legalisation

__all__ = ["RefusalsPass"]

_DEEPEST = 5
"""The axes of the operand of a convolution: three of them are convolved over."""


class RefusalsPass(ir.passes.InPlacePass):
    """Look at a legalised model, and raise ConversionError with everything that has no right form.

    1. Operators at element types with which they were measured to be wrong, or not to run.
    2. Inputs and outputs of 64 bits, which the plugin computes in 32.
    3. Pads by a value that is no constant: the plugin pads by zero.
    4. Outputs without elements, in whose place it gives scalars.
    5. Scans in Scans, and convolutions over more than three axes, which its reader does not take.
    6. Convolutions with filters of symbolic sizes, for which it has no kernel, and those of images without elements, which it pads
       itself: it gives what is in memory.
    """

    def __init__(self, _: Target = standard_target) -> None:
        super().__init__()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above; the model stays as it is."""
        problems = [*_of_interface(model), *_of_nodes(model)]
        if problems:
            raise ConversionError("OpenVINO computes no right results for this model:\n  " + "\n  ".join(problems))
        return ir.passes.PassResult(model, modified=False)


def _of_interface(model: ir.Model) -> Iterator[str]:
    for what, values in (("input", model.graph.inputs), ("output", model.graph.outputs)):
        for value in values:
            if value.dtype is not None and value.dtype.bitwidth == 64:
                yield (
                    f"The {what} {value.name!r} is {value.dtype}, which its CPU plugin computes in 32 bits; let the function "
                    "take and give types of 32 bits, or export with x64=False."
                )
    for value in model.graph.outputs:
        if 0 in (dims_of(value) or ()):
            yield f"The output {value.name!r} has no elements; leave it out."


def _of_nodes(model: ir.Model) -> Iterator[str]:
    opset, table, seen = opset_of(model), legalisation().table, set[str]()
    for node in all_nodes(model):
        if node.op_type == "Scan" and any(inner.op_type == "Scan" for body in subgraphs(node) for inner in walk(body)):
            yield f"A Scan in a Scan ({place_of(node)})"
        if node.op_type in ("Conv", "ConvTranspose"):
            yield from (f"{node.op_type} {what} ({place_of(node)})" for what in _of_convolution(node))
        key = operator_key(node)
        for dtype in table.lacks(node, opset):
            problem = f"{key} of {dtype}"
            # What has a rewrite and was left as it is has operands that are small enough.
            if legalisation().find_rewrite(key, dtype) is None and problem not in seen:
                seen.add(problem)
                yield f"{problem} ({place_of(node)})"
        fill = operand(node, 2) if node.op_type == "Pad" else None
        if fill is not None and constant_tensor(fill) is None:
            yield f"Pad by a value that is no constant ({place_of(node)})"


def _of_convolution(node: ir.Node) -> Iterator[str]:
    image, kernel = (dims_of(value) or () for value in node.inputs[:2])
    if len(image) > _DEEPEST:
        yield "over more than three axes"
    if not all(isinstance(size, int) for size in kernel):
        yield "with a filter of symbolic sizes"
    if 0 in (dims_of(source_of(node.inputs[0], "Pad")) or ()):
        yield "of an image without elements"
