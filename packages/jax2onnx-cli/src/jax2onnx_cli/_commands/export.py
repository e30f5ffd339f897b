"""`jax2onnx export`: a function or a model becomes a file."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._exporting import Request, default_output, export, export_options
from jax2onnx_cli._terminal import Command, Result, Terminal

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx export digits.py:build --input 'x: f32[B, 28, 28, 1]' --verify",
    "jax2onnx export model.py:step -i 'cache: f32[B, S, 64]' -i 'x: f32[B, 1, 64]' --states 0=1 -o step.onnx",
)


@click.command("export", cls=Command, examples=_EXAMPLES)
@export_options
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
    help="The file; by default NAME.onnx here, NAME being the last part of OBJECT.",
)  # fmt: skip
@click.option("--verify", is_flag=True, help="Compare the model with JAX before it is written.")
@click.pass_obj
def command(terminal: Terminal, *, request: Request, output: Path | None, verify: bool) -> Result:
    """Export a function or a model as an ONNX file.

    OBJECT is module:name or file.py:name: a function, a model, or a function without parameters that returns the model, or the
    model and a list of its inputs. A file that exists is replaced as a whole, or, if something fails, left as it is.
    """
    path = default_output(request, output, ".onnx")
    with terminal.working(f"exporting {request.subject}"):
        program = export(request)
    for note in program.log.notes:
        terminal.warn(note)
    difference = None
    if verify:
        with terminal.working("verifying"):
            difference = program.verify()
    with terminal.working(f"writing {path}"):
        program.save(path)

    from jax2onnx_report.summary import summarize

    verified = "" if difference is None else f"equal to JAX; the largest difference is {difference:.3g}\n"
    data = {"file": str(path), "largest_difference": difference, "model": summarize(program.model).as_dict()}
    return Result(f"{program!r}\n{verified}written to {path}", data)
