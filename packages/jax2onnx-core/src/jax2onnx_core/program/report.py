"""`OnnxProgram.report()`: what became of the function, in a page of text."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from jax2onnx_graph import ir
from jax2onnx_graph.saving import weights_size

if TYPE_CHECKING:
    from jax2onnx_core.program.program import OnnxProgram

__all__ = ["operators", "summarise"]


def operators(model: ir.Model) -> collections.Counter[str]:
    """How often each operator occurs, subgraphs and functions included."""
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    return collections.Counter(node.op_type for graph in graphs for node in ir.traversal.RecursiveGraphIterator(graph))


def summarise(program: OnnxProgram) -> str:
    """The text of the report."""
    return "\n".join([*_interface(program), *_graph(program), *_lowering(program)])


def _interface(program: OnnxProgram) -> Iterator[str]:
    yield f"ONNX program, opset {program.opset}, target {program.target.name}"
    for title, values in (("input", program.model.graph.inputs), ("output", program.model.graph.outputs)):
        for value in values:
            shape = ", ".join(str(d.value if isinstance(d, ir.SymbolicDim) else d) for d in value.shape or ())
            yield f"  {title:6} {value.name}: {value.dtype} ({shape})"
    for constraint in program.inputs.symbols.constraints:
        yield f"  constraint {constraint.text}"


def _graph(program: OnnxProgram) -> Iterator[str]:
    counted = operators(program.model)
    yield f"weights: {weights_size(program.model) / 1e6:.2f} MB in {len(program.model.graph.initializers)} tensors"
    yield f"nodes: {counted.total()}: " + _listed(f"{name} {count}" for name, count in counted.most_common())


def _lowering(program: OnnxProgram) -> Iterator[str]:
    by_way: dict[str, list[str]] = {}
    for (name, way), count in sorted(program.record.ways.items()):
        by_way.setdefault(way, []).append(f"{name} {count}")
    for way, names in by_way.items():
        yield f"lowered by {way}: {_listed(names)}"
    for (name, reason), count in sorted(program.record.reasons.items()):
        if (name, "original call") in program.record.ways or (name, "decomposition") in program.record.ways:
            yield f"declined: {name} ({count}×): {reason}"


def _listed(items: Iterable[str]) -> str:
    return ", ".join(items) or "none"
