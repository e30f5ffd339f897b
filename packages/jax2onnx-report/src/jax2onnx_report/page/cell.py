"""The essence of the report for a cell of a notebook: a table without scripts."""

from __future__ import annotations

from jax2onnx_graph import ir

from jax2onnx_report.findings import Findings
from jax2onnx_report.page.page import asset, facts_of
from jax2onnx_report.summary import interface_rows, summarize, title_text

__all__ = ["notebook_cell"]


def notebook_cell(model: ir.Model, findings: Findings) -> str:
    """HTML for a model: its versions, sizes, inputs and outputs, symbols, states and notes."""
    import jinja2

    summary = summarize(model)
    sections = {
        **interface_rows(summary),
        "operators": [(", ".join(f"{name} {count}" for name, count in summary.operators.items()), "")],
    }
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(asset("cell.html")).render(
        title=title_text(summary),
        target=findings.target.name if findings.target else "",
        facts=facts_of(summary, findings),
        sections=sections,
        notes=findings.notes,
    )
