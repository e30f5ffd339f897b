"""`verify`: a program compared with the columns of a data set, on all workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping

import ray
import ray.data
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, VerificationError
from jax2onnx_runtime.program import Program

from jax2onnx_ray.inference import pool
from jax2onnx_ray.predictor import Batch, Checker
from jax2onnx_ray.rows import BatchedProgram

__all__ = ["CheckingWorker", "verify"]


class CheckingWorker:
    """An actor of a data set, which compares what the program gives with what it should give.

    Args:
      batched: the reference of a `BatchedProgram`.
      inputs, key, expected, rtol, atol: see `Checker`.
    """

    def __init__(
        self, batched: ray.ObjectRef[BatchedProgram], inputs: Mapping[str, str], key: str | None, expected: Mapping[str, str],
        rtol: float | None, atol: float | None,
    ) -> None:  # fmt: skip
        self._checker = Checker(ray.get(batched), inputs, key, expected, rtol, atol)

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """The differences of each row."""
        return self._checker(batch)


def verify(
    data: ray.data.Dataset, program: Program, expected: Mapping[str, str], *, workers: int | tuple[int, int],
    batch_size: int = 32, inputs: Mapping[str, str] | None = None, constants: Mapping[str, Array] | None = None,
    key: str | None = None, cpus: int = 1, rtol: float | None = None, atol: float | None = None,
) -> float:  # fmt: skip
    """Compare a program with columns of a data set; the largest absolute difference.

    Args:
      data: the data set.
      program: the program.
      expected: output of the program → the column with what it should be.
      workers: how many workers there are, or the least and the largest number.
      batch_size: how many rows a batch has.
      inputs: input of the program → the column that holds it, where they have different names.
      constants: the inputs that are the same for all rows, as the program takes them.
      key: a column whose values name rows in errors.
      cpus: how many processors a worker has.
      rtol: the relative tolerance; by default that of each output's dtype.
      atol: the absolute tolerance; by default `rtol` times the largest number of the row.

    Raises:
      VerificationError: an output differs; the row is named.
      OptionError: an option does not fit the program, or there are no rows.
    """
    batched = BatchedProgram(program.portable(), constants or {}, cpus)
    options = dict(inputs or {}), key, dict(expected), rtol, atol
    Checker(batched, *options)  # errors of options are raised here
    found = data.map_batches(
        CheckingWorker, fn_constructor_args=(ray.put(batched), *options), batch_size=batch_size, batch_format="numpy",
        compute=pool(workers), num_cpus=cpus,
    )  # fmt: skip
    largest: list[float] = []
    for row in found.iter_rows():
        if row["detail"]:
            raise VerificationError(f"Output {row['detail']}.")
        largest.append(float(row["largest"]))
    if not largest:
        raise OptionError("There is nothing to compare with: the data set has no rows.")
    return max(largest)
