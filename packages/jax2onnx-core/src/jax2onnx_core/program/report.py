"""`OnnxProgram.report()`: what became of the function, in a page of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.summary import interface_lines, size_lines

from jax2onnx_core.lowering.log import LoweringLog

__all__ = ["report_text"]


def report_text(model: ir.Model, opset: int, target: str, constraints: Sequence[str], log: LoweringLog) -> str:
    """The text of the report."""
    return "\n".join([
        f"ONNX program, opset {opset}, target {target}", *interface_lines(model),
        *(f"  constraint {constraint}" for constraint in constraints), *size_lines(model), *_lowering(log),
    ])  # fmt: skip


def _lowering(log: LoweringLog) -> Iterator[str]:
    by_way: dict[str, list[str]] = {}
    for (name, way), count in sorted(log.ways.items()):
        by_way.setdefault(way, []).append(f"{name} {count}")
    for way, names in by_way.items():
        yield f"lowered by {way}: " + ", ".join(names)
    for (name, reason), count in sorted(log.reasons.items()):
        yield f"declined: {name} ({count}×): {reason}"
    yield from log.notes
