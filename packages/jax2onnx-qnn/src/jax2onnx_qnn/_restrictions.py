"""What the NPU does not take of an operator beside element types, as measured with the provider's library."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from jax2onnx_graph.facts.values import dims_of

__all__ = ["violations"]

_CONTROL_FLOW = ("If", "Loop", "Scan")
_MOST_AXES = 5


def violations(node: ir.Node) -> Iterator[str]:
    """The reasons for which the NPU does not run a node, beside its element types."""
    if node.op_type in _CONTROL_FLOW:
        yield "a graph in it"
    for value in (*node.inputs, *node.outputs):
        dims = (None if value is None else dims_of(value)) or ()
        if len(dims) > _MOST_AXES:
            yield f"{len(dims)} axes; there are at most {_MOST_AXES}"
        if 0 in dims:
            yield "an array without elements"
