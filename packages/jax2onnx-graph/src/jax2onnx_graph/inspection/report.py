"""What became of a function, as text: the model in a few lines, and how each operation was lowered."""

from __future__ import annotations

from collections.abc import Iterator

from jax2onnx_graph._ir import ir
from jax2onnx_graph.inspection.lowering_log import LoweringLog
from jax2onnx_graph.inspection.summary import ModelSummary, summarize, summary_lines, title_text
from jax2onnx_graph.opsets import opset_lines
from jax2onnx_graph.targets import Target

__all__ = ["report_text", "summary_text"]


def summary_text(model: ir.Model, target: Target, log: LoweringLog) -> str:
    """A model in a few lines: versions, inputs and outputs, sizes, and what its user should know."""
    summary = summarize(model)
    return "\n".join([_title(summary, target), *summary_lines(summary), *log.notes])


def report_text(model: ir.Model, target: Target, log: LoweringLog) -> str:
    """The text of the report: the summary, what holds the opset up, and how each operation was lowered."""
    summary = summarize(model)
    lines = [*summary_lines(summary, everything=True), *opset_lines(model, target), *_lowering(log)]
    return "\n".join([_title(summary, target), *lines])


def _title(summary: ModelSummary, target: Target) -> str:
    return f"ONNX program {title_text(summary)}, target {target.name}"


def _lowering(log: LoweringLog) -> Iterator[str]:
    by_way: dict[str, list[str]] = {}
    for (name, way), count in sorted(log.ways.items()):
        by_way.setdefault(way, []).append(f"{name} {count}")
    for way, names in by_way.items():
        yield f"lowered by {way}: " + ", ".join(names)
    for (name, reason), count in sorted(log.reasons.items()):
        yield f"declined: {name} ({count}×): {reason}"
    yield from log.notes
