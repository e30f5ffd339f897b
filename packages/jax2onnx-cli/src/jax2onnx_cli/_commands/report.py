"""`jax2onnx report`: what became of a function or a model, as a page for a browser."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._exporting import Request, default_output, export, export_options
from jax2onnx_cli._terminal import Command, Result, Terminal

__all__ = ["command"]

_EXAMPLES = ("jax2onnx report digits.py:build --input 'x: f32[B, 28, 28, 1]' --verify --profile",)


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
    """Write a page about an export.

    It shows what became of each module and line, a picture of the graph, weights, symbols, casts, and what declined and why. It
    needs no network.
    """
    path = default_output(request, output, ".html")
    with terminal.working(f"exporting {request.subject}"):
        program = export(request, provenance=True)
    if verify:
        with terminal.working("verifying"):
            program.verify()
    if profile:
        with terminal.working("measuring"):
            program.profile()
    program.save_report(path)
    return Result(f"{program!r}\nwritten to {path}", {"file": str(path)})
