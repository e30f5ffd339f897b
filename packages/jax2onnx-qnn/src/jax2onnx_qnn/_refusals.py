"""The refusal of models that do not run wholly on the NPU."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.labels import symbols_in
from jax2onnx_graph.legalise.kernels import operator_key
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_graph.traversal import all_nodes, given_inputs, place_of

from jax2onnx_qnn._restrictions import is_widened_byte, violations
from jax2onnx_qnn._support import legalisation

__all__ = ["RefusalsPass"]


class RefusalsPass(ir.passes.InPlacePass):
    """Look at a legalised model, and raise ConversionError with everything that would not run on the NPU.

    1. Inputs with symbolic sizes: its programs are made for fixed ones.
    2. Graphs in nodes: loops and conditionals.
    3. Operators at element types with which they were measured not to run on it, or to be wrong.
    4. Arrays without elements, and of more than five axes.
    """

    def __init__(self, _: Target = standard_target) -> None:
        super().__init__()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above; the model stays as it is."""
        if sizes := dict(_symbols(model)):
            where = "; ".join(f"{symbol}, {place}" for symbol, place in sizes.items())
            fixed = ", ".join(f"{symbol!r}: 8" for symbol in sizes)
            raise ConversionError(
                f"The NPU runs models of fixed sizes, and this one has symbols: {where}. Give them numbers: specialize={{{fixed}}}."
            )
        found = list(dict.fromkeys(_problems(model)))
        if found:
            raise ConversionError("This model does not run wholly on the NPU:\n  " + "\n  ".join(found))
        return ir.passes.PassResult(model, modified=False)


def _symbols(model: ir.Model) -> Iterator[tuple[str, str]]:
    """The symbols of inputs, each with the place of one."""
    for value in given_inputs(model.graph):
        for axis, dim in enumerate(dims_of(value) or ()):
            if not isinstance(dim, int):
                for symbol in sorted(symbols_in(str(dim))):
                    yield symbol, f"on axis {axis} of the input {value.name!r}"


def _problems(model: ir.Model) -> Iterator[str]:
    opset, table = opset_of(model), legalisation().table
    for node in all_nodes(model):
        where = f"({place_of(node)})"
        yield from (f"{node.op_type} with {what} {where}" for what in violations(node))
        if not is_widened_byte(node):
            yield from (f"{operator_key(node)} of {dtype.numpy()} {where}" for dtype in table.lacks(node, opset))
