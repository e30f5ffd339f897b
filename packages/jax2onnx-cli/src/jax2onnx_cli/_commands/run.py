"""`jax2onnx run`: a model runs on arrays from files, or on random ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jax2onnx_cli._arrays import as_json, read_arrays, shown, write_arrays
from jax2onnx_cli._exporting import read_numbers
from jax2onnx_cli._installation import runtime_of
from jax2onnx_cli._terminal import BadInput, Command, Result, Terminal

if TYPE_CHECKING:
    from jax2onnx_graph import ir

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx run digits.onnx --input digits.npy --output scores.npz",
    "jax2onnx run policy.onnx -i state=state.npy -i temperature=0.5",
    "jax2onnx run digits.onnx --random --sizes B=3",
)


@click.command("run", cls=Command, examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="[NAME=]FILE",
    help="An .npy file, an .npz file of arrays by name, or NAME=number.",
)  # fmt: skip
@click.option("--random", is_flag=True, help="Random arrays for the inputs that are not given.")
@click.option("--sizes", multiple=True, metavar="SYMBOL=N,…", help="The sizes of symbols for random arrays.")
@click.option("--seed", type=click.IntRange(0), default=0, help="The seed of random arrays.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="An .npz file for the outputs.")
@click.option("--target", help="The target whose runtime runs the model; by default the installed one.")
@click.pass_obj
def command(
    terminal: Terminal, *, file: Path, inputs: Sequence[str], random: bool, sizes: Sequence[str], seed: int, output: Path | None,
    target: str | None,
) -> Result:  # fmt: skip
    """Run a model, of any producer, and show its outputs.

    Arrays without a name are for the inputs in their order.
    """
    from jax2onnx_graph.saving.reading import read_model
    from jax2onnx_graph.traversal import given_inputs
    from jax2onnx_runtime.feeds import feeds_of

    model = read_model(file)
    _check_kinds(model)
    _check_output(output)
    given = read_arrays(inputs, {str(value.name): value.dtype for value in given_inputs(model.graph)})
    missing = [str(value.name) for value in given_inputs(model.graph) if value.name not in given]
    if missing and not random:
        raise BadInput(
            f"There is no array for the input {missing[0]!r}: give it, --input {missing[0]}={missing[0]}.npy, or let arrays be made up, "
            "--random."
        )
    feeds = feeds_of(model, given, sizes=read_numbers("--sizes", sizes), seed=seed if random else None)
    with terminal.working(f"running {file}"):
        name, runtime = runtime_of(target)
        results = runtime.installed_or_reference().load(file)(feeds)
    outputs = {str(value.name): array for value, array in zip(model.graph.outputs, results, strict=True)}
    lines = [f"{name}: {shown(array)}" for name, array in outputs.items()]
    if output is not None:
        write_arrays(output, outputs)
        lines.append(f"written to {output}")
    data = {name: as_json(array) for name, array in outputs.items()}
    return Result("\n".join(lines), {"file": str(file), "target": name, "outputs": data})


def _check_kinds(model: ir.Model) -> None:
    from jax2onnx_graph import ir
    from jax2onnx_graph.facts.type_text import type_text

    for value in model.graph.outputs:
        if not isinstance(value.type, ir.TensorType):
            raise BadInput(
                f"The output {value.name!r} is {type_text(value)}; only models whose outputs are tensors run here."
            )


def _check_output(output: Path | None) -> None:
    """Raise BadInput before the model runs if the file of the outputs cannot be written."""
    if output is not None and output.suffix != ".npz":
        raise BadInput(f"--output {output}: the outputs become an .npz file; give it that suffix.")
    if output is not None and not output.parent.is_dir():
        raise BadInput(f"--output {output}: there is no directory {output.parent}; make it first.")
