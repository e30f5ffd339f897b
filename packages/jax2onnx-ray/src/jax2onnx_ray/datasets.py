"""Data sets as arguments of `verify(results=…)` and `quantize(calibration=…)` of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.options import check_count
from jax2onnx_runtime.program import Program

from jax2onnx_ray.predictor import Batch, Predictor, chosen_rows
from jax2onnx_ray.rows import BatchedProgram, groups_of

__all__ = ["Batches", "DataSet", "calls", "results"]


@runtime_checkable
class DataSet(Protocol):
    """An object that is read in batches of columns, as a data set of Ray is."""

    def iter_batches(self, *, batch_size: int, batch_format: str) -> Iterable[Batch]:
        """Its batches."""
        ...


#: A data set of Ray, or batches of columns.
Batches = DataSet | Iterable[Batch]


def calls(
    data: Batches, program: Program, *, inputs: Mapping[str, str] | None = None,
    constants: Mapping[str, Array] | None = None, batch_size: int = 32, limit: int | None = None,
) -> Iterator[dict[str, Array]]:  # fmt: skip
    """Calls of a program for `quantize("static_int8", calibration=…)`: a call for each group of rows of one shape in a batch.

    Args:
      data: the data set.
      program: the program.
      inputs: input of the program → the column that holds it, where they have different names.
      constants: the inputs that are the same for all rows.
      batch_size: how many rows a batch of the data set has.
      limit: how many calls are made at most; None for all.

    Raises:
      OptionError: the limit is no number from 0 on.
      RuntimeInputError: a column is missing.
    """
    check_count("limit", limit)
    for number, (arguments, _) in enumerate(_groups(data, program, inputs, constants, {}, batch_size)):
        if number == limit:
            return
        yield arguments


def results(
    data: Batches, program: Program, expected: Mapping[str, str], *, inputs: Mapping[str, str] | None = None,
    constants: Mapping[str, Array] | None = None, batch_size: int = 32,
) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:  # fmt: skip
    """Pairs of arguments and results for `verify(results=…)`, see `calls`.

    Args:
      data: the data set.
      program: the program.
      expected: output of the program → the column with what it should be; all of its outputs.
      inputs: input of the program → the column that holds it, where they have different names.
      constants: the inputs that are the same for all rows.
      batch_size: how many rows a batch of the data set has.

    Raises:
      OptionError: an output is missing in `expected`.
      RuntimeInputError: a column is missing.
    """
    names = program.output_names
    if expected.keys() != set(names):
        raise OptionError(f"expected has {', '.join(expected) or 'nothing'}; the outputs are {', '.join(names)}.")
    yield from _groups(data, program, inputs, constants, expected, batch_size)


def _groups(
    data: Batches, program: Program, inputs: Mapping[str, str] | None, constants: Mapping[str, Array] | None,
    expected: Mapping[str, str], batch_size: int,
) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:  # fmt: skip
    """The inputs and the expected outputs of rows of one shape in a batch."""
    constants = constants or {}
    predictor = Predictor(BatchedProgram(program.portable(), constants), inputs or {}, None)
    batches = data.iter_batches(batch_size=batch_size, batch_format="numpy") if isinstance(data, DataSet) else data
    for batch in batches:
        wanted = chosen_rows(batch, expected, "expected")
        rows = predictor.rows(batch)
        if not expected:
            wanted = [{}] * len(rows)
        for group in groups_of((*row.values(), *want.values()) for row, want in zip(rows, wanted, strict=True)):
            given = {name: np.stack([rows[i][name] for i in group]) for name in predictor.column_of}
            yield {**given, **constants}, {name: np.stack([wanted[i][name] for i in group]) for name in expected}
