"""`check_in_place`: caches of a fixed capacity whose new values can be written into the memory of the old ones."""

from __future__ import annotations

from jax2onnx_generation.decoders.interface import PAST, PRESENT
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.traversal import needed_by

__all__ = ["check_in_place"]

# Kernels of ONNX Runtime that write into the memory of an operand if that is the memory of a result, too: operand → result.
_IN_PLACE = {
    "ScatterElements": {0: 0},
    "ScatterND": {0: 0},
    "TensorScatter": {0: 0},
    "GroupQueryAttention": {3: 1, 4: 2},
}


def check_in_place(model: ir.Model) -> None:
    """Raise OptionError unless whatever reads an old cache has done so before the new one is written into its memory."""
    inputs = {value.name: value for value in model.graph.inputs}
    for output in model.graph.outputs[1:]:
        past = inputs[(output.name or "").replace(PRESENT, PAST)]
        node = output.producer()
        readers = _readers(past)
        if node is None or (node in readers and not _is_in_place(node, past, output)):
            reason = "is no update that works in place"
        elif not readers - {node} <= needed_by(node):
            reason = "may be written before the old one has been read"
        else:
            continue
        raise OptionError(
            f"onnxruntime-genai lets caches of a fixed capacity share their memory, but the new value of {past.name} {reason}: "
            "write the new keys and values with jax.lax.dynamic_update_slice and let attention read what that returns."
        )


def _readers(value: ir.Value) -> set[ir.Node]:
    """The nodes that read the elements of a value, also by way of views, which have its memory in ONNX Runtime."""
    found, pending = set[ir.Node](), [value]
    while pending:
        nodes = [use.node for use in pending.pop().uses() if use.node.op_type not in ("Shape", "Size")]
        found.update(nodes)
        pending += [node.outputs[0] for node in nodes if facts_of(node.op_type).is_view or node.op_type == "Identity"]
    return found


def _is_in_place(node: ir.Node, past: ir.Value, present: ir.Value) -> bool:
    """Whether a node writes the new value of a cache into the memory of the old one, which it reads nowhere else."""
    places = _IN_PLACE.get(node.op_type, {})
    return [places.get(i) for i, value in enumerate(node.inputs) if value is past] == [node.outputs.index(present)]
