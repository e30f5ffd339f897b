"""`map_program`: a program over a data set, on all workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping

import ray
import ray.data
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.program import Program

from jax2onnx_ray.predictor import Batch, Predictor
from jax2onnx_ray.rows import BatchedProgram

__all__ = ["Worker", "map_program", "pool"]


class Worker:
    """An actor of a data set, which loads the program once.

    Args:
      batched: the reference of a `BatchedProgram`, whose weights the workers of one machine share.
      inputs, key: see `Predictor`.
    """

    def __init__(self, batched: ray.ObjectRef[BatchedProgram], inputs: Mapping[str, str], key: str | None) -> None:
        self._predictor = Predictor(ray.get(batched), inputs, key)

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """The batch with the outputs as further columns."""
        return self._predictor(batch)


def map_program(
    data: ray.data.Dataset, program: Program, *, workers: int | tuple[int, int], batch_size: int = 32,
    inputs: Mapping[str, str] | None = None, constants: Mapping[str, Array] | None = None, key: str | None = None,
    cpus: int = 1,
) -> ray.data.Dataset:  # fmt: skip
    """The data set with the outputs of a program as further columns, computed by workers that load the program once.

    Rows of a batch that have one shape are run together, so that nothing is padded. A worker that dies is started again, and its
    batches are run anew.

    Args:
      data: the data set.
      program: the program, whose inputs have the batch as their first axis.
      workers: how many workers there are, or the least and the largest number.
      batch_size: how many rows a batch has.
      inputs: input of the program → the column that holds it, where they have different names.
      constants: the inputs that are the same for all rows, as the program takes them.
      key: a column whose values name rows in errors; without, a row is named by its number in the batch.
      cpus: how many processors a worker has; so many threads compute one operator.

    Raises:
      OptionError: an option does not fit the program. What is wrong with a row is raised when the data set is read.
    """
    batched = BatchedProgram(program.portable(), constants or {}, cpus)
    Predictor(batched, inputs or {}, key)  # errors of options are raised here
    return data.map_batches(
        Worker, fn_constructor_args=(ray.put(batched), dict(inputs or {}), key), batch_size=batch_size,
        batch_format="numpy", compute=pool(workers), num_cpus=cpus,
    )  # fmt: skip


def pool(workers: int | tuple[int, int]) -> ray.data.ActorPoolStrategy:
    """The workers of a data set: a number of them, or between two numbers. Raises OptionError for what is neither."""
    match workers:
        case bool():
            pass
        case int() if workers > 0:
            return ray.data.ActorPoolStrategy(size=workers)
        case (int(least), int(most)) if 0 < least <= most:
            return ray.data.ActorPoolStrategy(min_size=least, max_size=most)
    raise OptionError(f"workers is a number from 1 on, or the least and the largest number, not {workers!r}.")
