"""`jax2onnx bisect`: where the numbers of a model and those of JAX part."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jax2onnx_cli._exporting import Comparison, Request, comparison_options, export, export_options
from jax2onnx_cli._files import program_of_file
from jax2onnx_cli._installation import runtime_of
from jax2onnx_cli._terminal import BadInput, Command, Result, Terminal

if TYPE_CHECKING:
    from jax2onnx_runtime.bisection import Bisection, ComparedValue
    from jax2onnx_runtime.quantization import Mode

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx bisect digits.py:build --input 'x: f32[B, 28, 28, 1]'",
    "jax2onnx bisect digits.py:build --input 'x: f32[B, 28, 28, 1]' --quantize int8",
    "jax2onnx bisect digits_int8.onnx --against digits.onnx",
    "jax2onnx bisect digits.onnx --against digits.py:build",
    "jax2onnx bisect digits.onnx --target openvino --against onnxruntime",
)


@click.command("bisect", cls=Command, examples=_EXAMPLES)
@export_options
@click.option("--quantize", metavar="MODE", help="Look at the model in fewer bits: int4, int8, float16, …")
@click.option(
    "--against", metavar="WHAT", help="For a file: another file, an object, or the target whose runtime is right."
)
@comparison_options
@click.pass_obj
def command(
    terminal: Terminal, *, request: Request, quantize: Mode | None, against: str | None, comparison: Comparison
) -> Result:
    """Find where the numbers of a model and JAX part.

    Every value inside the model is compared with the one that JAX computes, on random inputs. The first that differs is shown
    with its line and what lowered it, and those with the largest errors; then the exit code is 1.

    OBJECT may be a file NAME.onnx, which is compared with --against: with values of the same names in another file, such as the
    one that it was quantised or optimised from; with the object that it was exported from; or with itself in another runtime.
    """
    if request.subject.endswith(".onnx"):
        found = _of_file(terminal, request, quantize, against, comparison)
    elif against is not None:
        raise BadInput("--against is for a model file; an object is compared with JAX.")
    else:
        found = _of_object(terminal, request, quantize, comparison)
    data = {
        "at": found.where,
        "first": None if found.first is None else _as_dict(found.first),
        "values": [_as_dict(value) for value in found],
    }
    return Result(str(found), data, is_good=found.first is None)


def _of_object(terminal: Terminal, request: Request, quantize: Mode | None, comparison: Comparison) -> Bisection:
    """The model of an object beside JAX."""
    with terminal.working(f"exporting {request.subject}"):
        exported = export(request, provenance=True)
        program = exported if quantize is None else exported.quantize(quantize)
    with terminal.working("comparing"):
        return program.bisect(**comparison)


def _of_file(
    terminal: Terminal, request: Request, quantize: Mode | None, against: str | None, comparison: Comparison
) -> Bisection:
    """A model file beside another, beside JAX, or beside itself in another runtime."""
    file = Path(request.subject)
    if against is None:
        raise BadInput(
            f"{file} is a model file: say what it is compared with, --against OTHER.onnx, --against module:object for what it was exported "
            "from, or --against onnx for the same file in onnx.reference."
        )
    if quantize is not None:
        raise BadInput(f"{file} is a model file; --quantize is for an object. Compare two files by --against.")
    if against.endswith(".onnx") or ":" not in against:
        with terminal.working("comparing"):
            return _of_two(file, request, against, comparison)
    program = program_of_file(terminal, file, dataclasses.replace(request, subject=against), provenance=True)
    with terminal.working("comparing"):
        return program.bisect(**comparison)


def _of_two(file: Path, request: Request, against: str, comparison: Comparison) -> Bisection:
    from jax2onnx_graph.saving.reading import read_model
    from jax2onnx_runtime.model_bisection import bisect_models
    from jax2onnx_runtime.program import program_of

    request.check_is_file(taken=["target"])
    (_, runtime), model = runtime_of(request.target), read_model(file)
    if against.endswith(".onnx"):
        reference = program_of(read_model(against), runtime)
    else:
        _, its_runtime = runtime_of(against)
        if its_runtime is runtime:
            raise BadInput(
                f"--against {against}: {file} runs in {runtime.name} already; another runtime is named by --target, or by --against."
            )
        reference = program_of(model, its_runtime)
    return bisect_models(program_of(model, runtime), reference, **comparison)


def _as_dict(value: ComparedValue) -> dict[str, object]:
    source = value.source
    return {
        "name": value.name, "operation": source.operation, "lowered_by": source.lowered_by, "distribution": source.owner,
        "line": source.line, "module": source.module, "operator": value.operator, "dtype": str(value.dtype),
        "shape": list(value.shape), "is_close": value.is_close, "largest": float(value.error.largest), "scale": float(value.error.scale),
    }  # fmt: skip
