"""The report on an exported function as text: the model in a few lines, and how each operation was lowered."""

from __future__ import annotations

from collections.abc import Iterator

from jax2onnx_graph import ir
from jax2onnx_graph.opsets import opset_lines

from jax2onnx_report.findings import Findings
from jax2onnx_report.summary import ModelSummary, summarize, summary_lines, title_text

__all__ = ["report_text", "summary_text"]


def summary_text(model: ir.Model, findings: Findings) -> str:
    """A model in a few lines: versions, inputs and outputs, sizes, and what its user should know."""
    summary = summarize(model)
    return "\n".join([_title(summary, findings), *summary_lines(summary), *findings.notes])


def report_text(model: ir.Model, findings: Findings) -> str:
    """The text of the report: the summary, what holds the opset up, and how each operation was lowered."""
    summary = summarize(model)
    opsets = opset_lines(model, findings.target) if findings.target else ()
    lines = [*summary_lines(summary, everything=True), *opsets, *_lowering(findings)]
    return "\n".join([_title(summary, findings), *lines])


def _title(summary: ModelSummary, findings: Findings) -> str:
    return f"ONNX program {title_text(summary)}" + (f", target {findings.target.name}" if findings.target else "")


def _lowering(findings: Findings) -> Iterator[str]:
    by_way: dict[str, list[str]] = {}
    for (name, way), count in sorted(findings.ways.items()):
        by_way.setdefault(way, []).append(f"{name} {count}")
    for way, names in by_way.items():
        yield f"lowered by {way}: " + ", ".join(names)
    for (name, reason), count in sorted(findings.reasons.items()):
        yield f"declined: {name} ({count}×): {reason}"
    yield from findings.not_formed
    yield from findings.notes
