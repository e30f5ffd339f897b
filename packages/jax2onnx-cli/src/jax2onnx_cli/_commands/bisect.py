"""`jax2onnx bisect`: where the numbers of a model and those of JAX part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jax2onnx_cli._exporting import Comparison, Request, comparison_options, export, export_options
from jax2onnx_cli._terminal import Command, Result, Terminal

if TYPE_CHECKING:
    from jax2onnx_runtime.bisection import ComparedValue
    from jax2onnx_runtime.quantization import Mode

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx bisect digits.py:build --input 'x: f32[B, 28, 28, 1]'",
    "jax2onnx bisect digits.py:build --input 'x: f32[B, 28, 28, 1]' --quantize int8",
)


@click.command("bisect", cls=Command, examples=_EXAMPLES)
@export_options
@click.option("--quantize", metavar="MODE", help="Look at the model in fewer bits: int4, int8, float16, …")
@comparison_options
@click.pass_obj
def command(terminal: Terminal, *, request: Request, quantize: Mode | None, comparison: Comparison) -> Result:
    """Find where the numbers of a model and JAX part.

    Every value inside the model is compared with the one that JAX computes, on random inputs. The first that differs is shown
    with its line and what lowered it, and those with the largest errors; then the exit code is 1.
    """
    with terminal.working(f"exporting {request.subject}"):
        exported = export(request, provenance=True)
        program = exported if quantize is None else exported.quantize(quantize)
    with terminal.working("comparing"):
        found = program.bisect(**comparison)
    data = {
        "at": found.where,
        "first": None if found.first is None else _as_dict(found.first),
        "values": [_as_dict(value) for value in found],
    }
    return Result(str(found), data, is_good=found.first is None)


def _as_dict(value: ComparedValue) -> dict[str, object]:
    source = value.source
    return {
        "name": value.name, "operation": source.operation, "lowered_by": source.lowered_by, "distribution": source.owner,
        "line": source.line, "module": source.module, "operator": value.operator, "dtype": str(value.dtype),
        "shape": list(value.shape), "is_close": value.is_close, "largest": float(value.error.largest), "scale": float(value.error.scale),
    }  # fmt: skip
