"""A model in a few lines: its inputs, outputs, weights and operators."""

from __future__ import annotations

import collections
from collections.abc import Iterator

from jax2onnx_graph._ir import ir
from jax2onnx_graph.saving import weights_size
from jax2onnx_graph.traversal import all_nodes

__all__ = ["interface_lines", "operators", "size_lines"]


def operators(model: ir.Model) -> collections.Counter[str]:
    """How often each operator occurs, subgraphs and functions included."""
    return collections.Counter(node.op_type for node in all_nodes(model))


def interface_lines(model: ir.Model) -> Iterator[str]:
    """One line for each input and output: name, element type, dimensions."""
    for title, values in (("input", model.graph.inputs), ("output", model.graph.outputs)):
        for value in values:
            shape = ", ".join(str(d.value if isinstance(d, ir.SymbolicDim) else d) for d in value.shape or ())
            yield f"  {title:6} {value.name}: {value.dtype} ({shape})"


def size_lines(model: ir.Model) -> Iterator[str]:
    """The size of the weights, and how often each operator occurs."""
    counted = operators(model)
    yield f"weights: {weights_size(model) / 1e6:.2f} MB in {len(model.graph.initializers)} tensors"
    yield f"nodes: {counted.total()}: " + ", ".join(f"{name} {count}" for name, count in counted.most_common())
