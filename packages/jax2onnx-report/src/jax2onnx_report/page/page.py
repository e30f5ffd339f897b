"""The report as one HTML page that needs no network: tables, bars, and a picture of the graph that opens and closes."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.durations import duration_text
from jax2onnx_graph.opsets import opset_lines

from jax2onnx_report.findings import Findings, VerifiedOutput
from jax2onnx_report.page._casts import casts_of
from jax2onnx_report.page._picture import picture_of
from jax2onnx_report.parts import Part, line_text, parts_of, user_lines
from jax2onnx_report.summary import (
    ModelSummary,
    WeightSummary,
    bytes_text,
    counted,
    labels_text,
    state_text,
    summarize,
    symbol_text,
    title_text,
)

__all__ = ["asset", "facts_of", "report_page"]

# How many weights have a bar of their own.
_BARS = 24


@dataclasses.dataclass(frozen=True)
class _Row:
    """A module or a line of source text: its name, and the name in full."""

    name: str
    path: str
    depth: int
    nodes: int
    operators: str
    bytes: int
    seconds: float


def report_page(model: ir.Model, findings: Findings) -> str:
    """The page about a model of any producer."""
    import jinja2

    summary = summarize(model)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"bytes": bytes_text, "duration": duration_text}
    return environment.from_string(asset("page.html")).render(
        summary=summary,
        title=summary.name or "model",
        versions=title_text(summary).removeprefix(summary.name).removeprefix(", "),
        target=findings.target.name if findings.target else "",
        facts=facts_of(summary, findings),
        symbols=[(symbol.name, symbol_text(symbol)) for symbol in summary.symbols],
        labelled=labels_text(summary.labels),
        states=[(pair.input, state_text(pair)) for pair in summary.states],
        modules=list(_modules(parts_of(model), findings.times)),
        lines=[_row(line_text(line), line_text(line), 0, nodes, findings.times) for line, nodes in user_lines(model).items()],
        bars=_bars(summary.weights),
        other_weights=summary.weights[_BARS:],
        timed_at=findings.timed_at,
        casts=casts_of(model),
        opsets=[line_text(line) for line in opset_lines(model, findings.target)] if findings.target else [],
        ways=[(name, way, count) for (name, way), count in sorted(findings.ways.items())],
        reasons=[(name, reason, count) for (name, reason), count in sorted(findings.reasons.items())],
        not_formed=[line_text(sentence) for sentence in findings.not_formed],
        notes=findings.notes,
        errors=findings.verified,
        accuracy=findings.accuracy,
        total=sum(findings.times.values()),
        style=asset("page.css"),
        scripts=[*(asset(library["file"]) for library in json.loads(asset("libraries.json"))), asset("page.js")],
        licences=asset("LICENSES.txt"),
        data=_json({
            "picture": picture_of(model).as_dict(),
            "errors": [dataclasses.asdict(error) for error in findings.verified],
        }),
    )  # fmt: skip


@functools.cache
def asset(name: str) -> str:
    """A file that the page is made of."""
    text = (importlib.resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("//# sourceMappingURL="))


def _json(data: object) -> str:
    """JSON for a script element, which nothing in it can end."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def facts_of(summary: ModelSummary, findings: Findings) -> Iterator[tuple[str, str, bool]]:
    """The facts at the top of the page: text, subject, and whether it is bad news."""
    yield f"{summary.parameters:,}", "parameter" + "s" * (summary.parameters != 1), False
    yield f"{summary.nodes:,}", "node" + "s" * (summary.nodes != 1), False
    yield bytes_text(summary.weight_bytes), f"in {counted(len(summary.weights), 'weight')}", False
    yield str(len(summary.operators)), "operators", False
    if findings.times:
        at = f", at {findings.timed_at}" if findings.timed_at else ""
        yield duration_text(sum(findings.times.values())), f"in its nodes{at}", False
    if findings.verified:
        yield _verified(findings.verified)
    for name in summary.assumptions:
        yield name, "assumed of the numbers", False
    if findings.notes:
        yield str(len(findings.notes)), "note" + "s" * (len(findings.notes) != 1), True


def _verified(found: Sequence[VerifiedOutput]) -> tuple[str, str, bool]:
    """The fact that says what verification found."""
    runs = counted(len({error.where for error in found}), "run")
    if not all(error.is_close for error in found):
        return "differs", f"in {runs}", True
    known = {error.output for error in found if error.is_known}
    unknown = list(dict.fromkeys(error.output for error in found if error.output not in known))
    if unknown:
        return "not verified", f"no number of {', '.join(unknown)} is finite", True
    return "verified", f"equal in {runs}", False


def _modules(part: Part, times: Mapping[str, float], depth: int = 0) -> Iterator[_Row]:
    yield _row(part.name or "the whole model", part.path, depth, part.nodes, times)
    for inner in part.parts.values():
        yield from _modules(inner, times, depth + 1)


def _row(name: str, path: str, depth: int, nodes: Sequence[ir.Node], times: Mapping[str, float]) -> _Row:
    part = Part(name, path, list(nodes))
    operators = ", ".join(f"{name} {count}" if count > 1 else name for name, count in part.operators)
    return _Row(name, path, depth, len(nodes), operators, sum(part.weights.values()), part.seconds(times))


def _bars(weights: Sequence[WeightSummary]) -> list[tuple[str, str, int, float]]:
    """Name, type, bytes and length of the bar of each large weight, and of all others together."""
    shown, others = weights[:_BARS], weights[_BARS:]
    rows = [(weight.name, weight.type, weight.bytes) for weight in shown]
    if others:
        rows.append((counted(len(others), "other"), "", sum(weight.bytes for weight in others)))
    longest = max((size for _, _, size in rows), default=0) or 1
    return [(name, type_, size, 100 * size / longest) for name, type_, size in rows]
