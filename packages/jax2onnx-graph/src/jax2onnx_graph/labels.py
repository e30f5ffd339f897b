"""Labels: the names of symbolic dimensions that a model shows, and whether they are whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.traversal import all_graphs

__all__ = ["check_labels", "symbols_in"]

_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATIONS = {"floordiv", "mod", "max", "min"}


def check_labels(model: ir.Model, known: Collection[str], outputs: Sequence[Sequence[str | None]]) -> list[str]:
    """Sentences about dimensions without a label, with an unknown one, or that lost theirs; empty if all is well.

    Args:
      model: the exported model.
      known: the symbols that inputs have.
      outputs: for each output, the labels that its dimensions should have, None for numbers.
    """
    return [*_unexplained(model, known), *_lost(model, outputs)]


def _unexplained(model: ir.Model, known: Collection[str]) -> Iterator[str]:
    for value in _values(model):
        if value.shape is None and (value.uses() or value.is_graph_output()) and not _has_a_reason(value):
            yield f"{value.name}: its shape is not known; the rule that emits it should give dims=… to ctx.op."
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim):
                if dim.value is None:
                    yield f"{value.name}: axis {axis} has no label."
                elif unknown := symbols_in(dim.value) - set(known):
                    yield f"{value.name}: axis {axis} is labelled {dim.value!r}; no input has {', '.join(sorted(unknown))}."


def _has_a_reason(value: ir.Value) -> bool:
    """Whether a value has no shape because its size depends on data, or because an operand has none."""
    node = value.producer()
    if node is None:
        return False
    sizes = node.inputs[1] if node.op_type == "Split" and len(node.inputs) > 1 else None
    unknown = any(operand is not None and operand.shape is None for operand in node.inputs)
    return unknown or (sizes is not None and sizes.const_value is None)


def _lost(model: ir.Model, outputs: Sequence[Sequence[str | None]]) -> Iterator[str]:
    for value, labels in zip(model.graph.outputs, outputs, strict=True):
        for axis, (dim, label) in enumerate(zip(value.shape or (), labels, strict=False)):
            shown = dim.value if isinstance(dim, ir.SymbolicDim) else str(dim)
            if label is not None and shown != label:
                yield f"{value.name}: axis {axis} should be {label}, but is {shown}."


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in all_graphs(model):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def symbols_in(label: str) -> set[str]:
    """The symbols in the label of a dimension, which may be an expression."""
    return set(_NAME.findall(label)) - _OPERATIONS
