"""`Predictor`: what a worker of a data set holds: a program, loaded once, that is called with batches of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_runtime.comparison import output_error

from jax2onnx_ray.rows import BatchedProgram, as_columns, rows_of

__all__ = ["Batch", "Checker", "Predictor", "chosen_rows"]

#: The columns of a batch: arrays of its rows, of objects where the rows have different shapes.
Batch = Mapping[str, Array]


class Predictor:
    """Adds the outputs of a program to batches of rows.

    Args:
      batched: the program, in batches of rows.
      inputs: input of the program → the column that holds it, where they have different names.
      key: a column whose values name rows in errors; None for the number of the row in its batch.
    """

    def __init__(self, batched: BatchedProgram, inputs: Mapping[str, str], key: str | None) -> None:
        self.batched, self.key = batched, key
        if unknown := [name for name in inputs if name not in batched.columns]:
            raise OptionError(f"inputs: there is no input {unknown[0]!r}; the inputs are {', '.join(batched.columns)}.")
        self.column_of = {name: inputs.get(name, name) for name in batched.columns}

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """The batch with the outputs as further columns."""
        names = self.batched.program.output_names
        if twice := [name for name in names if name in batch]:
            raise RuntimeInputError(
                f"The data set has a column {twice[0]!r} already, which the output of that name would replace: rename or drop the column."
            )
        outputs = self.batched.complete(self.rows(batch), self.keys(batch))
        return {**batch, **dict(as_columns(outputs, names))}

    def rows(self, batch: Batch) -> list[dict[str, Array]]:
        """The rows of the inputs. Raises RuntimeInputError where a column is missing."""
        return chosen_rows(batch, self.column_of, "inputs")

    def keys(self, batch: Batch) -> Sequence[str]:
        """The name of each row, for errors. Raises RuntimeInputError where the column of the key is missing."""
        if self.key is None:
            return [f"{i} of its batch" for i in range(len(next(iter(batch.values()))))]
        if self.key not in batch:
            raise RuntimeInputError(
                f"key: the data set has no column {self.key!r}; its columns are {', '.join(batch)}."
            )
        return [f"{self.key} = {value!r}" for value in batch[self.key].tolist()]


class Checker(Predictor):
    """Compares the outputs of a program with columns of batches.

    Args:
      batched: the program, in batches of rows.
      inputs: input of the program → the column that holds it, where they have different names.
      key: a column whose values name rows in errors.
      expected: output of the program → the column with what it should be.
      rtol: the relative tolerance; by default that of each output's dtype.
      atol: the absolute tolerance; by default `rtol` times the largest number of the row.
    """

    def __init__(
        self, batched: BatchedProgram, inputs: Mapping[str, str], key: str | None, expected: Mapping[str, str],
        rtol: float | None, atol: float | None,
    ) -> None:  # fmt: skip
        super().__init__(batched, inputs, key)
        self.expected, self.rtol, self.atol = expected, rtol, atol
        names = batched.program.output_names
        if not expected:
            raise OptionError(
                f"expected says which column holds what an output should be; the outputs are {', '.join(names)}."
            )
        if unknown := [name for name in expected if name not in names]:
            raise OptionError(f"expected: there is no output {unknown[0]!r}; the outputs are {', '.join(names)}.")

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """For each row and output: the largest difference, and a sentence where it is too large."""
        rows, keys = self.rows(batch), self.keys(batch)
        found = self.batched.complete(rows, keys)
        wanted = chosen_rows(batch, self.expected, "expected")
        errors = [
            output_error(name, np.asarray(got[name]), _as_output(want[name], got[name].dtype), f"the row {key}", rtol=self.rtol, atol=self.atol)
            for key, got, want in zip(keys, found, wanted, strict=True)
            for name in self.expected
        ]  # fmt: skip
        details = [f"{error.output} at {error.where}: {error.detail}" if error.detail else "" for error in errors]
        return {"largest": np.array([error.largest for error in errors]), "detail": np.array(details, object)}


def _as_output(want: Array, dtype: Dtype) -> Array:
    """The expected output, for floats rounded as the output is, else as it is, since whole numbers hold no others."""
    is_whole = dtype == np.bool_ or "int" in dtype.name
    return want if is_whole or want.dtype.kind in "cO" else want.astype(dtype, copy=False)


def chosen_rows(batch: Batch, column_of: Mapping[str, str], option: str) -> list[dict[str, Array]]:
    """The rows of some columns under the names of inputs or outputs.

    Args:
      batch: the columns.
      column_of: input or output → the column that holds it.
      option: the option that says so, for the error.

    Raises:
      RuntimeInputError: a column is missing.
    """
    for name, column in column_of.items():
        if column not in batch:
            raise RuntimeInputError(
                f"The data set has no column {column!r} for {name!r}; its columns are {', '.join(batch)}. Say which column it is: "
                f"{option}={{{name!r}: …}}."
            )
    return rows_of({name: batch[column] for name, column in column_of.items()})
