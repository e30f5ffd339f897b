"""`train`: a training goes over arrays of examples, epoch by epoch, and on from where a checkpoint ended."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.options import check_count

from jax2onnx_training.session import TrainingSession
from jax2onnx_training.state_names import LOSS

__all__ = ["Epoch", "train"]


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The steps of an epoch that were taken now.

    Attributes:
      number: the number of the epoch, from 1 on.
      losses: the loss of each step.
      means: the mean over the steps of the loss and of each metric that is one number.
    """

    number: int
    losses: Sequence[float]
    means: Mapping[str, float]

    def __str__(self) -> str:
        return f"epoch {self.number}: " + ", ".join(f"{name} {mean:.4g}" for name, mean in self.means.items())


def train(
    session: TrainingSession, examples: Mapping[str, Array], *, batch_size: int, epochs: int, seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Iterator[Epoch]:  # fmt: skip
    """Take steps on batches of examples in a random order, another one in each epoch.

    How many steps the session has seen says where it goes on, so that a training that is loaded from a checkpoint takes the batches that
    it would have taken.

    Args:
      session: the training.
      examples: the inputs of a step by their names, with an example in each row; the last rows that make no batch are left out.
      batch_size: how many rows make a batch.
      epochs: after how many epochs, those before a checkpoint among them, it ends.
      seed: that of the order.
      checkpoint: a file that the states are written to after each epoch, and read from first if it is there.

    Raises:
      OptionError: the arrays are not those of a step, or have different numbers of rows, or too few.
      LossError: a loss is NaN or infinite.
    """
    check_count("batch_size", batch_size)
    check_count("epochs", epochs)
    if checkpoint is not None and Path(checkpoint).exists():
        session.load(checkpoint)
    count = _rows(session, examples)
    if count < batch_size:
        raise OptionError(f"There are {count} examples, fewer than a batch of {batch_size}.")
    per_epoch = count // batch_size
    while session.steps < epochs * per_epoch:
        number, done = divmod(session.steps, per_epoch)
        order = np.random.default_rng((seed, number)).permutation(count)[: per_epoch * batch_size]
        rows = order.reshape(per_epoch, batch_size)[done:]
        results = [session.step_on({name: array[batch] for name, array in examples.items()}) for batch in rows]
        if checkpoint is not None:
            session.save(checkpoint)
        numbers = [name for name, x in results[0].items() if isinstance(x, np.ndarray | np.generic) and x.ndim == 0]
        means = {name: float(np.mean([float(result[name]) for result in results])) for name in numbers}
        yield Epoch(number + 1, [float(result[LOSS]) for result in results], means)


def _rows(session: TrainingSession, examples: Mapping[str, Array]) -> int:
    """The number of examples."""
    if {*examples} != {*session.inputs}:
        raise OptionError(
            f"A step takes {', '.join(session.inputs)}, but there are arrays for {', '.join(examples) or 'none'}."
        )
    rows = {name: len(array) if array.ndim else 0 for name, array in examples.items()}
    if len({*rows.values()}) > 1:
        raise OptionError(
            "The arrays have different numbers of rows: "
            + ", ".join(f"{name} has {n}" for name, n in rows.items())
            + "."
        )
    return min(rows.values())
