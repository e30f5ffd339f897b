"""`jax2onnx export`: a function or a model becomes a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jax2onnx_cli._exporting import Request, default_output, export, export_options, outcome_text, read_numbers, unique
from jax2onnx_cli._folders import Folder, FolderCommand
from jax2onnx_cli._terminal import BadInput, Result, Terminal

if TYPE_CHECKING:
    from jax2onnx_core import OnnxProgram
    from jax2onnx_runtime.quantization import Mode

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx export digits.py:build --input 'x: f32[B, 28, 28, 1]' --verify",
    "jax2onnx export model.py:step -i 'cache: f32[B, S, 64]' -i 'x: f32[B, 1, 64]' --states 0=1 -o step.onnx",
    "jax2onnx export decoder.py:build --for genai --tokenizer tokenizer -o folder",
)


@click.command("export", cls=FolderCommand, examples=_EXAMPLES)
@export_options
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
    help="The file; by default NAME.onnx here, NAME being the last part of OBJECT. With --for the folder, by default NAME.",
)  # fmt: skip
@click.option(
    "--for", "runtime", metavar="RUNTIME", help="Write a folder for a runtime: genai, tensorrt, transformersjs, …"
)
@click.option(
    "--quantize",
    metavar="MODE",
    help="Write the model in fewer bits: int4, int8, dynamic_int8, float16, bfloat16, int4_qdq, float8.",
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
@click.pass_obj
def command(
    terminal: Terminal, /, *, request: Request, output: Path | None, quantize: Mode | None, external_data: bool | None,
    provenance: bool, variants: Sequence[str], verify: bool, runtime: str | None, **written: object,
) -> Result:  # fmt: skip
    """Export a function or a model as an ONNX file.

    OBJECT is module:name or file.py:name: a function, a model, or a function without parameters that returns the model, or the
    model and a list of its inputs. A file that exists is replaced as a whole, or, if something fails, left as it is.
    """
    sizes, folder = _variants(variants), Folder.from_options(runtime, written)
    if folder is not None and (external_data is not None or (sizes and not folder.takes_variants)):
        raise BadInput("--for writes a folder of its own form: neither --variant nor --external-data goes with it.")
    if folder is None and sizes and (output is None or external_data is not None):
        raise BadInput(
            "--variant writes several models and the weights that they share: --output names their directory, and "
            "--external-data does not go with it."
        )
    if folder is not None:
        folder, sizes = folder.with_variants(variants), {}
        path = folder.path(request, output)
    else:
        path = output if sizes and output is not None else default_output(request, output, ".onnx")
    with terminal.working(f"exporting {request.subject}"):
        exported = export(request, provenance=provenance)
    for note in exported.log.notes:
        terminal.warn(note)
    if folder is not None and quantize is not None and folder.quantizes:
        folder, quantize = folder.quantized(quantize), None
    program = exported if quantize is None else exported.quantize(quantize)
    found = None
    if verify:
        with terminal.working("verifying"):
            found = program.verify()
    with terminal.working(f"writing {path}"):
        files = _write(program, path, folder, sizes, external_data)

    from jax2onnx_report.summary import summarize

    data = {
        "file": str(path),
        "files": [*map(str, files)],
        "model": summarize(program.model).as_dict(),
        "largest_difference": found if found is not None and found.is_known else None,
    }
    return Result(
        f"{program!r}\n{outcome_text(found, is_quantized=quantize is not None)}written to {', '.join(map(str, files))}",
        data,
    )


def _write(
    program: OnnxProgram, path: Path, folder: Folder | None, sizes: Mapping[str, Mapping[str, int]],
    external_data: bool | None,
) -> list[Path]:  # fmt: skip
    """Write the folder of a runtime, or variants, or one file; the files that were written."""
    if folder is not None:
        return folder.write(program, path)
    if sizes:
        return program.save_variants(path, **sizes)
    return [program.save(path, external_data=external_data)]


def _variants(texts: Sequence[str]) -> dict[str, Mapping[str, int]]:
    """The sizes of each variant, by its name."""
    pairs = (text.partition(":") for text in texts)
    return unique("--variant", ((name.strip(), read_numbers("--variant", [sizes])) for name, _, sizes in pairs))
