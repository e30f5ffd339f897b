"""`jax2onnx verify`: a model file and the object that it was exported from compute the same."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._exporting import Comparison, Request, comparison_options, export_options
from jax2onnx_cli._files import program_of_file
from jax2onnx_cli._terminal import Command, Result, Terminal

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx verify digits.onnx digits.py:build",
    "jax2onnx verify digits.onnx digits.py:build --sizes B=1 --sizes B=64 --rtol 1e-3",
)


@click.command("verify", cls=Command, examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@export_options
@comparison_options
@click.pass_obj
def command(terminal: Terminal, *, request: Request, file: Path, comparison: Comparison) -> Result:
    """Compare a file with what it was exported from.

    Both run on random inputs, at several sizes of every symbol. A file holds no Python, so OBJECT is named again; its inputs,
    symbols and constraints are those of the file unless they are given, its --states are given again. The exit code is 1 if the
    results differ.
    """
    program = program_of_file(terminal, file, request)
    with terminal.working(f"verifying {file}"):
        found = program.verify(**comparison)
    claim = f"{file} computes what {request.subject} does"
    text = f"{claim}; the largest difference is {found:.3g}" if found.is_known else f"It is not known whether {claim}."
    return Result(
        "\n".join([text, *found.notes]),
        {"file": str(file), "object": request.subject, "largest_difference": found if found.is_known else None},
    )
