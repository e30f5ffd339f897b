"""`jax2onnx report`: what became of a function or a model, as a page for a browser."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._exporting import Request, default_output, export, export_options, outcome_text
from jax2onnx_cli._terminal import BadInput, Command, Result, Terminal

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx report digits.py:build --input 'x: f32[B, 28, 28, 1]' --verify --profile",
    "jax2onnx report digits.onnx",
)


@click.command("report", cls=Command, examples=_EXAMPLES)
@export_options
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
    help="The page; by default NAME.html here, NAME being the last part of OBJECT.",
)  # fmt: skip
@click.option("--verify", is_flag=True, help="Compare the model with JAX, and show the errors.")
@click.option("--profile", is_flag=True, help="Measure how long each node takes, on random inputs.")
@click.pass_obj
def command(terminal: Terminal, *, request: Request, output: Path | None, verify: bool, profile: bool) -> Result:
    """Write a page about an export, or about a model file.

    It shows what became of each module and line, a picture of the graph, weights, symbols, casts, and what declined and why. It
    needs no network. OBJECT may be a file `NAME.onnx` of any producer, without the options of an export.
    """
    if request.subject.endswith(".onnx"):
        return _report_on_file(Path(request.subject), request, output, measured=verify or profile)
    path = default_output(request, output, ".html")
    with terminal.working(f"exporting {request.subject}"):
        program = export(request, provenance=True)
    found = None
    if verify:
        with terminal.working("verifying"):
            found = program.verify()
    if profile:
        with terminal.working("measuring"):
            program.profile()
    program.save_report(path)
    data = {"file": str(path), "largest_difference": found if found is not None and found.is_known else None}
    return Result(f"{program!r}\n{outcome_text(found)}written to {path}", data)


def _report_on_file(file: Path, request: Request, output: Path | None, *, measured: bool) -> Result:
    """The page about a model of any producer."""
    from jax2onnx_graph.saving.reading import read_model
    from jax2onnx_graph.saving.writing import save_text
    from jax2onnx_report.findings import Findings
    from jax2onnx_report.page.page import report_page

    request.check_is_file()
    if measured:
        raise BadInput(f"{file} is a model; --verify and --profile are for an export.")
    model = read_model(file)
    path = save_text(report_page(model, Findings()), output or Path(f"{file.stem}.html"))
    return Result(f"written to {path}", {"file": str(path)})
