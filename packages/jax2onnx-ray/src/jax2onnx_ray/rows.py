"""`BatchedProgram`: rows of a data set through a program, in batches of equal shapes."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.facts.values import LabelledDim, same_dim
from jax2onnx_graph.labels import symbols_in
from jax2onnx_graph.traversal import given_inputs
from jax2onnx_runtime.program import Program
from jax2onnx_runtime.states import RuntimeOptions, StatefulModel

__all__ = ["BatchedProgram", "Row", "RowFailure", "array_of", "as_columns", "groups_of", "row_of", "rows_of", "stacked"]

#: The arrays of a row by the names of inputs or outputs, without the axis of the batch.
Row = Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class RowFailure:
    """A row that the program could not be run on.

    Attributes:
      error: the type and the message of the error.
    """

    error: str


@dataclasses.dataclass(frozen=True)
class BatchedProgram:
    """A program that is run on rows of a data set. Rows of one shape are one batch, and nothing is padded.

    Attributes:
      program: the program, whose inputs have the batch as their first axis.
      constants: the inputs that are the same for all rows, as the program takes them.
      threads: how many threads compute one operator; None leaves it to the runtime.

    Raises:
      OptionError: a constant is no input, all inputs are constants, or an input or output has another first axis than that of the rows.
    """

    program: Program
    constants: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    threads: int | None = 1

    def __post_init__(self) -> None:
        graph, names = self.program.model.graph, self.program.input_names
        if unknown := [name for name in self.constants if name not in names]:
            raise OptionError(f"constants: there is no input {unknown[0]!r}; the inputs are {', '.join(names)}.")
        if not self.columns:
            raise OptionError("constants: there is no input left that each row has its own of.")
        inputs = [value for value in given_inputs(graph) if value.name not in self.constants]
        rows = [_first_axis(value) for value in inputs]
        symbols = {
            s
            for v in inputs
            for dim in v.shape or ()
            if isinstance(dim, ir.SymbolicDim)
            for s in symbols_in(dim.value or "")
        }
        for value in graph.outputs:
            first = _first_axis(value)
            is_known = (
                isinstance(first, ir.SymbolicDim) and first.value is not None and symbols_in(first.value) <= symbols
            )
            if is_known and not any(same_dim(first, other) for other in rows):
                raise OptionError(
                    f"The output {value.name!r} has {first} on its first axis, and the rows of a batch are {', '.join(dict.fromkeys(map(str, rows)))}. "
                    "Export a function whose results have a row for each row of the inputs."
                )

    @property
    def columns(self) -> list[str]:
        """The inputs that each row has its own of."""
        return [name for name in self.program.input_names if name not in self.constants]

    @functools.cached_property
    def _loaded(self) -> StatefulModel:
        return self.program.runtime.installed().open(self.program.model, (), RuntimeOptions(self.threads))

    def batch(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Run the program on stacked rows; the outputs, stacked likewise. Raises RuntimeInputError."""
        program = self.program
        feeds = program.named_feeds({**self.constants, **arrays})
        return program.named_results(self._loaded.run(feeds))

    def outcomes(self, rows: Sequence[Row]) -> list[dict[str, Array] | RowFailure]:
        """The outputs of each row, or why there are none; a row that fails does not keep others from running."""
        found: dict[int, dict[str, Array] | RowFailure] = {}
        whole: list[int] = []
        for number, row in enumerate(rows):
            if row.keys() != set(self.columns):
                text = (
                    f"the columns are {', '.join(self.columns)}, but the row has {', '.join(map(str, row)) or 'none'}"
                )
                found[number] = RowFailure(f"RuntimeInputError: {text}.")
            else:
                whole.append(number)
        for places in groups_of([rows[number][name] for name in self.columns] for number in whole):
            group = [whole[place] for place in places]
            found |= zip(group, self._group([rows[number] for number in group]), strict=True)
        return [found[number] for number in range(len(rows))]

    def _group(self, rows: Sequence[Row]) -> list[dict[str, Array] | RowFailure]:
        """The outcomes of rows of one shape: as one batch, or one by one if that fails."""
        try:
            outputs = self.batch(stacked(rows, self.columns))
        except Exception as error:  # noqa: BLE001  (what a runtime raises is kept for the row that causes it)
            if len(rows) == 1:
                return [RowFailure(f"{type(error).__name__}: {error}")]
            return [outcome for row in rows for outcome in self._group([row])]
        for name, array in outputs.items():
            if len(array) != len(rows):
                raise RuntimeInputError(
                    f"The output {name!r} has {len(array)} rows for {len(rows)} rows of the inputs."
                )
        return [{name: array[i] for name, array in outputs.items()} for i in range(len(rows))]

    def complete(self, rows: Sequence[Row], keys: Sequence[object]) -> list[dict[str, Array]]:
        """The outputs of all rows.

        Args:
          rows: the rows.
          keys: what tells somebody which row each is: its number, or its value in a column.

        Raises:
          RuntimeInputError: the program failed on a row, which is named.
        """
        outcomes = self.outcomes(rows)
        for key, row, outcome in zip(keys, rows, outcomes, strict=True):
            if isinstance(outcome, RowFailure):
                shown = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in row.items())
                raise RuntimeInputError(f"The program failed on the row {key} ({shown}): {outcome.error}")
        return [outcome for outcome in outcomes if not isinstance(outcome, RowFailure)]


def _first_axis(value: ir.Value) -> LabelledDim:
    """The dimension of the rows. Raises OptionError where there is none, or it is a number."""
    first = value.shape[0] if value.shape is not None and len(value.shape) else None
    if first is None or isinstance(first, int):
        raise OptionError(
            f"{value.name!r} has no symbolic first axis for the rows of a batch. Export the program with one, ('B', …), or "
            "give an input that all rows share as a constant."
        )
    return first


def groups_of(rows: Iterable[Iterable[Array]]) -> list[list[int]]:
    """The numbers of rows that can be stacked: those whose arrays have the same shapes and dtypes."""
    groups: dict[object, list[int]] = collections.defaultdict(list)
    for number, row in enumerate(rows):
        groups[tuple((array.shape, array.dtype) for array in row)].append(number)
    return [*groups.values()]


def row_of(given: object, types: Mapping[str, Dtype]) -> dict[str, Array]:
    """The row of an object of JSON, nested lists by the names of inputs. Raises RuntimeInputError."""
    if not isinstance(given, dict):
        raise RuntimeInputError(
            f"A request is an object of lists by the names of inputs, {{'x': […]}}, not {given!r:.80}."
        )
    return {name: array_of(name, value, types.get(name)) for name, value in given.items()}


def array_of(name: str, value: object, dtype: Dtype | None) -> Array:
    """The array of nested lists of numbers for an input of this dtype.

    Raises:
      RuntimeInputError: they are fractions or truth values where the input has whole numbers, numbers where it has truth values, no numbers,
        too large, or no rectangle.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise RuntimeInputError(f"The input {name!r} is no array of numbers: {error}") from error
    if dtype is None or not array.size:
        return array if dtype is None else array.astype(dtype)
    if array.dtype.kind == "O" and {type(number) for number in array.flat} <= {int, float}:  # more than 64 bits
        array = array.astype(np.float64)
    if array.dtype.kind not in ("b" if dtype == np.bool_ else "iu" if "int" in dtype.name else "iuf"):
        raise RuntimeInputError(f"The input {name!r} is of {dtype}, which does not hold {value!r:.80}.")
    try:
        with np.errstate(over="ignore"):
            made = np.asarray(value, dtype)
    except OverflowError as error:
        raise RuntimeInputError(f"The input {name!r} is of {dtype}: {error}.") from error
    if (np.isfinite(array) & ~np.isfinite(made)).any():
        raise RuntimeInputError(
            f"The input {name!r} is of {dtype}, in which a number of {value!r:.80} would be infinite."
        )
    return made


def rows_of(columns: Mapping[str, Sequence[object] | Array]) -> list[dict[str, Array]]:
    """The rows of columns, whose entries may have different shapes."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise RuntimeInputError(f"The columns {', '.join(columns)} have different lengths: {sorted(lengths)}.")
    return [{name: np.asarray(column[i]) for name, column in columns.items()} for i in range(min(lengths, default=0))]


def stacked(rows: Sequence[Row], names: Iterable[str]) -> dict[str, Array]:
    """Columns of rows that have the same shapes."""
    return {name: np.stack([row[name] for row in rows]) for name in names}


def as_columns(rows: Sequence[Row], names: Iterable[str]) -> Iterator[tuple[str, Array]]:
    """Columns of rows of any shapes: stacked where all have one shape, else arrays of objects."""
    for name in names:
        arrays = [row[name] for row in rows]
        if len({array.shape for array in arrays}) == 1:
            yield name, np.stack(arrays)
            continue
        column = np.empty(len(arrays), object)
        for i, array in enumerate(arrays):
            column[i] = array
        yield name, column
