"""`check_in_place`: caches of a fixed capacity whose new values can be written into the memory of the old ones."""

from __future__ import annotations

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.generation.decoder_interface import PAST, PRESENT

__all__ = ["check_in_place"]

# Kernels of ONNX Runtime that write into the memory of their first operand if that is the memory of the result, too.
_IN_PLACE = frozenset({"ScatterElements", "ScatterND", "TensorScatter"})


def check_in_place(model: ir.Model) -> None:
    """Raise OptionError unless whatever reads an old cache has done so before the new one is written into its memory."""
    inputs = {value.name: value for value in model.graph.inputs}
    for output in model.graph.outputs[1:]:
        past = inputs[(output.name or "").replace(PRESENT, PAST)]
        node = output.producer()
        readers = {use.node for use in past.uses() if use.node.op_type not in ("Shape", "Size")}
        if node is None or (node in readers and (node.op_type not in _IN_PLACE or node.inputs[0] is not past)):
            reason = "is no update that works in place"
        elif not readers - {node} <= _needed_by(node):
            reason = "may be written before the old one has been read"
        else:
            continue
        raise OptionError(
            f"onnxruntime-genai lets caches of a fixed capacity share their memory, but the new value of {past.name} {reason}: "
            "write the new keys and values with jax.lax.dynamic_update_slice and let attention read what that returns."
        )


def _needed_by(node: ir.Node) -> set[ir.Node]:
    """The nodes of its graph from whose results a node computes its own."""
    found: set[ir.Node] = set()
    pending = [node]
    while pending:
        for value in pending.pop().inputs:
            producer = None if value is None else value.producer()
            if producer is not None and producer not in found:
                found.add(producer)
                pending.append(producer)
    return found
