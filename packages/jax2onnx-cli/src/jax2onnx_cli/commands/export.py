"""`jax2onnx export`: a function or a model becomes a file."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli.exporting import Request, export, export_options
from jax2onnx_cli.terminal import BadInput, Command, Result, Terminal

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
    path = Path(f"{request.subject.rpartition(':')[2].rpartition('.')[2]}.onnx") if output is None else output
    _check_directory(path)
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

    from jax2onnx_graph.inspection.summary import summarize

    verified = "" if difference is None else f"equal to JAX; the largest difference is {difference:.3g}\n"
    data = {"file": str(path), "largest_difference": difference, "model": summarize(program.model).as_dict()}
    return Result(f"{program!r}\n{verified}written to {path}", data)


def _check_directory(path: Path) -> None:
    """Raise before the work is done if a file cannot be written."""
    if path.is_dir():
        raise BadInput(f"{path} is a directory: give the name of the file, too.")
    if not path.parent.is_dir():
        raise BadInput(f"There is no directory {path.parent} for {path.name}: make it first.")
