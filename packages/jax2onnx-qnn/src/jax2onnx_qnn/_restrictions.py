"""What the NPU does not take of an operator beside element types, as measured with the provider's library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir
from jax2onnx_graph.facts.values import dims_of, known, operand

__all__ = ["MOST_AXES", "is_widened_byte", "violations"]

_CONTROL_FLOW = ("If", "Loop", "Scan")
_POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
MOST_AXES = 5


def violations(node: ir.Node) -> Iterator[str]:
    """The reasons for which the NPU does not run a node, beside its element types."""
    if node.domain:
        yield "a domain that is not the standard's"
    if node.op_type in _CONTROL_FLOW:
        yield "a graph in it"
    if node.op_type in _POOLS and len(dims_of(node.inputs[0]) or ()) > 4:
        yield f"{len(dims_of(node.inputs[0]) or ()) - 2} axes in space; it pools over one or two"
    if node.op_type == "ConvTranspose" and set(node.attributes.get_ints("dilations", ()) or (1,)) != {1}:
        yield "dilations"
    if node.op_type == "GatherND" and (batch := node.attributes.get_int("batch_dims", 0)):
        yield f"batch_dims={batch}"
    if _is_cast(node, to=ir.DataType.UINT8, of=(ir.DataType.INT32, ir.DataType.UINT32, ir.DataType.INT64)):
        yield "integers that become bytes, which saturate instead of wrapping around"
    yield from _computed(node)
    for value in (*node.inputs, *node.outputs):
        dims = (None if value is None else dims_of(value)) or ()
        if len(dims) > MOST_AXES:
            yield f"{len(dims)} axes; there are at most {MOST_AXES}"
        if 0 in dims:
            yield "an array without elements"


def is_widened_byte(node: ir.Node) -> bool:
    """Whether a node is the Cast of bytes that is right, while those to other types and other operators on bytes are not."""
    return _is_cast(node, to=ir.DataType.INT32, of=(ir.DataType.UINT8,))


def _is_cast(node: ir.Node, *, to: ir.DataType, of: Sequence[ir.DataType]) -> bool:
    source = operand(node, 0) if node.op_type == "Cast" else None
    return source is not None and source.dtype in of and node.attributes.get_int("to", 0) == to


def _computed(node: ir.Node) -> Iterator[str]:
    """Operands that are computed, where the program of the NPU has to know them."""
    for operator, index, what in _CONSTANTS:
        value = operand(node, index) if node.op_type == operator else None
        if value is not None and known(value, limit=None) is None:
            yield f"{what} that are computed; they have to be constants"
    if node.op_type == "Pad" and node.attributes.get_string("mode", "constant") == "edge":
        sizes, given = dims_of(node.inputs[0]), node.inputs[1]
        pads = None if given is None else known(given, limit=None)
        too_many = sizes is not None and pads is not None and _exceed(pads.tolist(), sizes)
        if too_many:
            yield "as many elements as the edge has, or more"


def _exceed(pads: Sequence[int], sizes: Sequence[object]) -> bool:
    return any(isinstance(size, int) and pad >= size for size, pad in zip((*sizes, *sizes), pads, strict=False))


_CONSTANTS = (
    ("Split", 1, "sizes"),
    ("Pad", 1, "sizes"),
    ("Pad", 2, "numbers"),
    ("Tile", 1, "numbers"),
    ("Expand", 1, "sizes"),
    ("Reshape", 1, "sizes"),
)
