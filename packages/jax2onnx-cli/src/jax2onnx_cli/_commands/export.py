"""`jax2onnx export`: a function or a model becomes a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jax2onnx_cli._exporting import Request, default_output, export, export_options, read_numbers
from jax2onnx_cli._terminal import BadInput, Command, Result, Terminal

if TYPE_CHECKING:
    from jax2onnx_runtime.accuracy import Accuracy
    from jax2onnx_runtime.quantization import Mode

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
@click.option(
    "--quantize", metavar="MODE", help="Write the model in fewer bits: int4, int8, dynamic_int8, float16, bfloat16."
)
@click.option(
    "--external-data/--one-file",
    default=None,
    help="Write the weights to a data file beside the model, or not; by default by size.",
)
@click.option("--provenance", is_flag=True, help="Let each node's metadata name the line that it comes from.")
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME:SYMBOL=N,…",
    help="Write a specialization as NAME.onnx into the directory --output, with weights that all variants share.",
)  # fmt: skip
@click.option("--verify", is_flag=True, help="Compare the model with JAX before it is written.")
@click.option(
    "--sign", metavar="FILE", type=click.Path(path_type=Path),
    help="The PEM file of a private key, with which the model is signed: see verify-signature.",
)  # fmt: skip
@click.pass_obj
def command(
    terminal: Terminal, *, request: Request, output: Path | None, quantize: Mode | None, external_data: bool | None,
    provenance: bool, variants: Sequence[str], verify: bool, sign: Path | None,
) -> Result:  # fmt: skip
    """Export a function or a model as an ONNX file.

    OBJECT is module:name or file.py:name: a function, a model, or a function without parameters that returns the model, or the
    model and a list of its inputs. A file that exists is replaced as a whole, or, if something fails, left as it is.
    """
    sizes = _variants(variants)
    if sizes and (output is None or external_data is not None or sign is not None):
        raise BadInput(
            "--variant writes several models and the weights that they share: --output names their directory, and neither "
            "--external-data nor --sign goes with it."
        )
    path = output if sizes and output is not None else default_output(request, output, ".onnx")
    with terminal.working(f"exporting {request.subject}"):
        exported = export(request, provenance=provenance)
    for note in exported.log.notes:
        terminal.warn(note)
    program = exported if quantize is None else exported.quantize(quantize)
    difference = None
    if verify:
        with terminal.working("verifying"):
            difference = program.verify()
    with terminal.working(f"writing {path}"):
        files = (
            program.save_variants(path, **sizes)
            if sizes
            else [program.save(path, external_data=external_data, sign=sign)]
        )

    from jax2onnx_report.summary import summarize

    data = {
        "file": str(path),
        "files": [*map(str, files)],
        "model": summarize(program.model).as_dict(),
        **_numbers(difference),
    }
    return Result(f"{program!r}\n{_text(difference)}written to {', '.join(map(str, files))}", data)


def _variants(texts: Sequence[str]) -> dict[str, Mapping[str, int]]:
    """The sizes of each variant, by its name."""
    pairs = [text.partition(":") for text in texts]
    return {name.strip(): read_numbers("--variant", [sizes]) for name, _, sizes in pairs}


def _numbers(found: float | Accuracy | None) -> dict[str, object]:
    """The result of a comparison as numbers, for JSON."""
    if isinstance(found, float | None):
        return {"largest_difference": found}
    return {"largest_difference": found.worst.largest}


def _text(found: float | Accuracy | None) -> str:
    """The result of a comparison as text."""
    if found is None:
        return ""
    return f"equal to JAX; the largest difference is {found:.3g}\n" if isinstance(found, float) else f"{found}\n"
