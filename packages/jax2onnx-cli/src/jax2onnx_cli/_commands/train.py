"""`jax2onnx train`: a training in a folder goes over the examples of a file."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._terminal import BadInput, Command, Result, Terminal

__all__ = ["command"]

_EXAMPLES = (
    "jax2onnx train digits/ --data digits.npz --batch-size 32 --epochs 5 --checkpoint digits.states.npz",
    "jax2onnx train digits/ --data digits.npz --epochs 9 --checkpoint digits.states.npz",
)


@click.command("train", cls=Command, examples=_EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--data", required=True, metavar="FILE", type=click.Path(path_type=Path, exists=True),
              help="An .npz file with the inputs of a step by name, an example in each row.")  # fmt: skip
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True, help="How many rows make a batch.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="After how many epochs it ends.")
@click.option("--seed", type=click.IntRange(0), default=0, help="The seed of the order of the examples.")
@click.option("--checkpoint", metavar="FILE", type=click.Path(path_type=Path),
              help="A file for the states after each epoch; the training goes on from it if it is there.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1), help="How many threads compute one operator.")
@click.pass_obj
def command(
    terminal: Terminal, *, folder: Path, data: Path, batch_size: int, epochs: int, seed: int, checkpoint: Path | None,
    threads: int | None,
) -> Result:  # fmt: skip
    """Train on the examples of a file.

    FOLDER is what `Training.save` of jax2onnx-training has written. Without a checkpoint the trained weights are lost, and only
    the losses are shown.
    """
    try:
        from jax2onnx_training import open_training, train
    except ImportError as error:
        raise BadInput("Training needs jax2onnx-training: pip install jax2onnx-training.") from error
    from jax2onnx_runtime.array_files import UNREADABLE, read_arrays

    try:
        examples = read_arrays(data)
    except UNREADABLE as error:
        raise BadInput(f"--data {data}: it is no .npz file of arrays.") from error
    with terminal.working(f"training {folder}"):
        session = open_training(folder, threads=threads)
        found = [*train(session, examples, batch_size=batch_size, epochs=epochs, seed=seed, checkpoint=checkpoint)]
    lines = [*map(str, found), f"{session.steps} steps"]
    if checkpoint is not None:
        lines.append(f"states in {checkpoint}")
    data_of = [{"epoch": epoch.number, "losses": [*epoch.losses], **epoch.means} for epoch in found]
    return Result("\n".join(lines), {"folder": str(folder), "steps": session.steps, "epochs": data_of})
