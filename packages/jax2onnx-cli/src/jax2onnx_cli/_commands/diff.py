"""`jax2onnx diff`: what changes from one model file to another."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._terminal import Command, Result

__all__ = ["command"]


@click.command("diff", cls=Command)
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
def command(*, before: Path, after: Path) -> Result:
    """Show what changes from one model to another.

    Interface, versions, operators, weights, nodes and metadata are compared. The exit code is 1 if something changes.
    """
    from jax2onnx_graph.saving.reading import read_model
    from jax2onnx_report.difference import diff_models

    difference = diff_models(read_model(before), read_model(after))
    data = {"before": str(before), "after": str(after), **difference.as_dict()}
    return Result(str(difference), data, is_good=not difference)
