"""Matrices of all layers of a loop: constants [L, …] whose entries a `Scan` hands to its body one by one."""

from __future__ import annotations

from collections.abc import Iterable

from jax2onnx_graph import ir
from jax2onnx_graph.traversal import is_value_read

__all__ = ["drop_unread_entries", "entry_of", "stacks_among"]


def entry_of(node: ir.Node, index: int) -> ir.Value | None:
    """The value in the body of a `Scan` that is an entry along the first axis of its operand; None for other nodes and operands."""
    if node.op_type != "Scan" or node.domain:
        return None
    first = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    axes = node.attributes["scan_input_axes"].as_ints() if "scan_input_axes" in node.attributes else ()
    if index < first or (axes and axes[index - first] != 0):
        return None
    body: ir.Value = node.attributes["body"].as_graph().inputs[index]
    return body


def drop_unread_entries(scan: ir.Node) -> None:
    """Hand to the body of a `Scan` no entries that nothing in it reads; of the last operand they are, for the number of steps."""
    body = scan.attributes["body"].as_graph()
    first = len(scan.inputs) - scan.attributes["num_scan_inputs"].as_int()
    places = range(first, len(scan.inputs))
    kept = [place for place in places if is_value_read(body.inputs[place])]
    kept = kept or list(places)[-1:]
    for place in sorted(set(places) - set(kept), reverse=True):
        body.inputs.pop(place)
    for place, old in enumerate(kept, first):
        scan.replace_input_with(place, scan.inputs[old])
    scan.resize_inputs(first + len(kept))
    scan.attributes["num_scan_inputs"] = ir.AttrInt64("num_scan_inputs", len(kept))
    for name in ("scan_input_axes", "scan_input_directions"):
        if name in scan.attributes:
            numbers = scan.attributes[name].as_ints()
            scan.attributes[name] = ir.AttrInt64s(name, [numbers[place - first] for place in kept])


def stacks_among(values: Iterable[ir.Value]) -> dict[ir.Value, ir.Value]:
    """Entry → the value that has it, for the entries of some values."""
    pairs = ((entry_of(node, index), value) for value in values for node, index in value.uses())
    return {entry: value for entry, value in pairs if entry is not None}
