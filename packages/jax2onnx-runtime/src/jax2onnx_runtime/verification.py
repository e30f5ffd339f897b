"""`Verification`: the outputs of a model beside those that they should be, in several runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self

from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import RuntimeInputError

from jax2onnx_runtime._html import html_table
from jax2onnx_runtime.accuracy import Accuracy, accuracy
from jax2onnx_runtime.comparison import OutputError, output_error
from jax2onnx_runtime.pytrees import PyTree
from jax2onnx_runtime.runtimes import LoadedModel

__all__ = ["ExpectedRun", "Run", "StoredResult", "Verification", "expected_run", "verify_runs"]


@dataclasses.dataclass(frozen=True)
class Run:
    """The arguments of one run.

    Attributes:
      where: the run, as messages describe it: "B = 3".
      args: the positional arguments.
      kwargs: the keyword arguments.
      may_be_refused: whether the function may refuse them, as it may the largest element of none; the run is left out then.
    """

    where: str
    args: Sequence[PyTree]
    kwargs: Mapping[str, PyTree]
    may_be_refused: bool = False


@dataclasses.dataclass(frozen=True)
class ExpectedRun:
    """A run of a model, and the outputs that it should have.

    Attributes:
      where: the run, as messages describe it: "B = 3".
      feeds: an array for each input, by name.
      outputs: the arrays that the outputs should be, in order.
    """

    where: str
    feeds: Mapping[str, Array]
    outputs: Sequence[Array]


#: A run whose outputs are known: an `ExpectedRun`; or a pair of the arguments of a call (a tuple of them, or arrays by the
#: names of inputs) and its result (what the function returned, or arrays by the names of outputs).
StoredResult = ExpectedRun | tuple[object, object]


class Verification(float):
    """The largest absolute difference of all outputs in all runs; its text says what was compared.

    It is NaN where numbers were compared of which none is finite: nothing is known of the model then.

    Attributes:
      errors: the difference of each output, run by run.
      accuracy: the differences of each output in all runs together, with the ratio of signal to noise.
      has_tolerance: whether an error beyond the tolerance would have been raised.
    """

    errors: Sequence[OutputError]
    accuracy: Accuracy
    has_tolerance: bool

    def __new__(cls, errors: Sequence[OutputError], found: Accuracy, *, has_tolerance: bool = True) -> Self:
        """The result of comparisons.

        Args:
          errors: the difference of each output, run by run.
          found: the differences of each output in all runs together.
          has_tolerance: whether an error beyond the tolerance would have been raised.
        """
        is_known = any(one.finite for one in found.outputs) or not any(one.size for one in found.outputs)
        largest = max((one.largest for one in errors), default=0.0)
        self = super().__new__(cls, largest if is_known else math.nan)
        self.errors, self.accuracy, self.has_tolerance = tuple(errors), found, has_tolerance
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _verification, (self.errors, self.accuracy, self.has_tolerance)

    @property
    def is_known(self) -> bool:
        """Whether the comparison says something: a number that was compared is finite, or there were none."""
        return not math.isnan(self)

    @property
    def runs(self) -> list[str]:
        """The runs, as messages describe them: "B = 3"."""
        return list(dict.fromkeys(one.where for one in self.errors))

    @property
    def notes(self) -> list[str]:
        """A sentence about each output of which nothing was learnt, because none of its numbers is finite."""
        return [
            f"None of the {one.size} numbers of {one.name!r} that were compared is finite: they are NaN or infinite in both, which "
            "tells nothing of the others. Verify with other inputs or weights."
            for one in self.accuracy.outputs
            if one.size and not one.finite
        ]

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.accuracy.outputs:
            allowed = max((error.allowed for error in self.errors if error.output == one.name), default=0.0)
            yield (
                one.name, f"{one.largest:.3g}", f"{allowed:.3g}" if self.has_tolerance else "none", f"{one.snr:.1f} dB", f"{one.finite} of {one.size}"
            )  # fmt: skip

    def _title(self) -> str:
        return f"largest difference {float(self):.3g} in {self.accuracy.runs} runs: {'; '.join(self.runs)}"

    def __str__(self) -> str:
        titles = ("output", "largest", "tolerance", "SNR", "finite")
        rows = [f"{name:24} {a:>10} {b:>10} {c:>10}  {d}" for name, a, b, c, d in (titles, *self._rows())]
        return "\n".join([self._title(), *rows, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        text = "\n".join([self._title(), *self.notes])
        return html_table(("output", "largest", "tolerance", "SNR", "finite"), self._rows(), text)


def verify_runs(
    names: Sequence[str], loaded: LoadedModel, runs: Iterable[ExpectedRun], *, rtol: float | None = None,
    atol: float | None = None, least: float = 0.0, taken: Callable[[OutputError], None] | None = OutputError.check,
) -> Verification:  # fmt: skip
    """Run a model, and compare its outputs with those that they should be.

    Args:
      names: those of the outputs.
      loaded: the loaded model.
      runs: the runs; the next one is asked for when the outputs of the one before it have been compared.
      rtol: the relative tolerance; by default that of each output's dtype.
      atol: the absolute tolerance; by default `rtol` times the largest number of the output.
      least: the relative tolerance of floats, if that of their dtype is less and `rtol` is not given.
      taken: is called with the error of each output of each run; None where nothing is too large.

    Raises:
      VerificationError: an output has another shape, or `taken` raises it.
      OptionError: there are no runs.
    """
    errors: list[OutputError] = []

    def compared() -> Iterator[tuple[Sequence[Array], Sequence[Array]]]:
        for run in runs:
            outputs = loaded(run.feeds)
            for name, got, want in zip(names, outputs, run.outputs, strict=True):
                errors.append(output_error(name, got, want, run.where, rtol=rtol, atol=atol, least=least))
                if taken is not None:
                    taken(errors[-1])
            yield run.outputs, outputs

    found = accuracy(names, compared())
    return Verification(errors, found, has_tolerance=taken is not None)


def _verification(errors: Sequence[OutputError], found: Accuracy, has_tolerance: bool) -> Verification:
    return Verification(errors, found, has_tolerance=has_tolerance)


def expected_run(
    stored: StoredResult, number: int, feeds: Callable[[object], dict[str, Array]],
    outputs: Callable[[object], list[Array]],
) -> ExpectedRun:  # fmt: skip
    """Stored arguments and results of a run.

    Args:
      stored: the run, or a pair of its arguments and its result.
      number: that of the run, for messages.
      feeds: the model's inputs for what stands for the arguments.
      outputs: its outputs for what stands for the result.

    Raises:
      RuntimeInputError: it is no pair, or does not fit; its number is named.
    """
    if isinstance(stored, ExpectedRun):
        return stored
    if not isinstance(stored, tuple) or len(stored) != 2:
        raise RuntimeInputError(
            f"results[{number}] is {type(stored).__name__}; a result is a pair of arguments and result."
        )
    try:
        return ExpectedRun(f"results[{number}]", feeds(stored[0]), outputs(stored[1]))
    except RuntimeInputError as error:
        raise RuntimeInputError(f"results[{number}]: {error}") from error
