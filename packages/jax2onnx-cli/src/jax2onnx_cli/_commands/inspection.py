"""`jax2onnx inspect`: what a model file holds."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._terminal import Command, Result

__all__ = ["command"]


@click.command("inspect", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
def command(*, file: Path) -> Result:
    """Show what a model holds.

    That is inputs, outputs, symbols, states, functions, sizes, the largest weights and the operators, of a model of any producer.
    """
    from jax2onnx_graph.saving.reading import read_model
    from jax2onnx_report.summary import summarize, summary_lines, title_text

    summary = summarize(read_model(file))
    producer = " ".join(filter(None, [summary.producer, summary.producer_version])) or "an unknown program"
    lines = [f"ONNX model {title_text(summary)}, written by {producer}", *summary_lines(summary, everything=True)]
    return Result("\n".join(lines), {"file": str(file), **summary.as_dict()})
