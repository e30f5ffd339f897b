"""`benchmark`: how long contenders take for the same runs, of which only those with the right results are measured."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.durations import duration_text
from jax2onnx_graph.errors import Jax2OnnxError, OptionError, VerificationError
from jax2onnx_graph.options import check_count
from jax2onnx_graph.progress import steps

from jax2onnx_runtime._html import html_table
from jax2onnx_runtime.comparison import output_error
from jax2onnx_runtime.feeds import feeds_of, sizes_text, symbol_space
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.sizes import Sizes, SymbolSpace, check_runs, find_sizes
from jax2onnx_runtime.states import RuntimeOptions

__all__ = [
    "Benchmark", "Clock", "Contender", "Measurement", "PreparedRun", "benchmark", "benchmark_model", "cpu_count", "model_contender", "time_in_turns",
    "usual_sizes",
]  # fmt: skip

_T = TypeVar("_T")

#: Tells the time in seconds.
Clock = Callable[[], float]

_USUAL = (1, 8, 64)
_LEAST_ROUNDS = 3
_RUNS_OF_A_ROUND = 3
# Threads of a runtime look for further work for some milliseconds after a run, while the next contender runs already.
_SHORT = 0.05


@dataclasses.dataclass(frozen=True)
class PreparedRun:
    """A run for which everything is compiled, loaded and converted.

    Attributes:
      run: computes the result, and returns when it is there.
      outputs: the same, and returns the arrays in the order of the model's outputs.
    """

    run: Callable[[], object]
    outputs: Callable[[], Sequence[Array]]


@dataclasses.dataclass(frozen=True)
class Contender(Generic[_T]):
    """A way to compute the results.

    Attributes:
      name: what tables call it.
      threads: how many threads it uses, in words.
      prepare: makes it ready for a run.
    """

    name: str
    threads: str
    prepare: Callable[[_T], PreparedRun]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The time of a contender for a run.

    Attributes:
      contender: its name.
      where: the run: "B = 8".
      runs: how many runs were measured; 0 where there is a problem.
      median: the median of their seconds.
      least: the least of them, which other work on the machine changes least.
      quartiles: a quarter of the runs took less seconds than the first, a quarter more than the second.
      difference: the largest absolute difference of a result from that of the first contender.
      problem: why nothing was measured: the results differ, or the runtime refuses the model; else empty.
      is_wrong: whether the problem is that the results differ.
    """

    contender: str
    where: str
    runs: int = 0
    median: float = 0.0
    least: float = 0.0
    quartiles: tuple[float, float] = (0.0, 0.0)
    difference: float = 0.0
    problem: str = ""
    is_wrong: bool = False


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """The times of all contenders for all runs; its text is a table.

    Attributes:
      measurements: run by run, the contenders in order.
      threads: how many threads each contender uses, in words, by its name; the results are compared with those of the first.
      cpus: how many processors this process may use.
      notes: sentences about what was not measured, and why.
    """

    measurements: Sequence[Measurement]
    threads: Mapping[str, str]
    cpus: int
    notes: Sequence[str] = ()

    @property
    def is_right(self) -> bool:
        """Whether no result differs by more than the tolerance."""
        return not any(one.is_wrong for one in self.measurements)

    def ratio(self, one: Measurement) -> float | None:
        """Speed relative to the first contender in the same run; None where one of the two was not measured."""
        first = next(other for other in self.measurements if other.where == one.where)
        return first.median / one.median if first.runs and one.median else None

    def __str__(self) -> str:
        rows = [("", "", "median", "least", "middle half", "speed"), *self._rows()]
        widths = [max(len(row[i]) for row in rows if i < 2 or len(row) > 3) for i in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows
        ]
        return "\n".join([*lines, *self._facts()])

    __repr__ = __str__

    def _rows(self) -> Iterator[tuple[str, ...]]:
        before = None
        for one in self.measurements:
            where, before = "" if one.where == before else one.where, one.where
            problem = one.problem.partition("\n")[0]
            yield (where, one.contender, problem) if problem else (where, one.contender, *self._cells(one))

    def _cells(self, one: Measurement) -> tuple[str, str, str, str]:
        ratio = self.ratio(one)
        return (
            duration_text(one.median),
            duration_text(one.least),
            " – ".join(map(duration_text, one.quartiles)),
            "" if ratio is None or one.contender == next(iter(self.threads)) else f"{ratio:.3g}×",
        )

    def _facts(self) -> Iterator[str]:
        used = ", ".join(f"{name} {threads}" for name, threads in self.threads.items())
        yield f"measured in turns on {self.cpus} CPU{'s' * (self.cpus != 1)}; threads: {used}"
        right = next((one.contender for one in self.measurements if one.runs), None)
        if right is not None and len(self.threads) > 1:
            found = max((one.difference for one in self.measurements if one.runs), default=0.0)
            yield f"results compared with those of {right}; the largest difference is {found:.3g}"
        yield from self.notes

    def _repr_html_(self) -> str:
        titles = ("run", "contender", "median", "least", "middle half", "speed")
        rows = [(*row, *[""] * (len(titles) - len(row))) for row in self._rows()]
        return html_table(titles, rows, "\n".join(self._facts()))

    def as_dict(self) -> dict[str, object]:
        """The same in dicts, lists, strings and numbers; times are seconds."""
        return {
            "cpus": self.cpus, "threads": dict(self.threads), "notes": list(self.notes),
            "measurements": [{**dataclasses.asdict(one), "ratio": self.ratio(one)} for one in self.measurements],
        }  # fmt: skip


def benchmark(
    contenders: Sequence[Contender[_T]], runs: Mapping[str, _T], outputs: Sequence[str], *, seconds: float = 1.0,
    rtol: float | None = None, atol: float | None = None, notes: Sequence[str] = (), clock: Clock = time.perf_counter,
) -> Benchmark:  # fmt: skip
    """Compare contenders run by run: their results first, then how long those with the right results take.

    Args:
      contenders: the ways to compute the results, of which the first is right.
      runs: what they are prepared for, by the texts that describe it.
      outputs: the names of the outputs.
      seconds: how long each run is measured, all contenders together; each is measured nine times at least.
      rtol: the relative tolerance; by default that of each output's dtype.
      atol: the absolute tolerance; by default `rtol` times the largest number of the output.
      notes: sentences about what is not measured.
      clock: what tells the time.

    Raises:
      OptionError: there is nothing to measure, two contenders have one name, or the seconds are none.
    """
    names = [contender.name for contender in contenders]
    if not contenders or not runs:
        raise OptionError(f"There is nothing to measure: there are no {'runs' if contenders else 'contenders'}.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"Two contenders are called {twice[0]!r}; give each a name of its own.")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise OptionError(f"seconds={seconds!r}: it is how long each run is measured, a number from 0 on.")
    measurements: list[Measurement] = []
    for where in steps("benchmark", list(runs)):
        checked = list(_checked(contenders, where, runs[where], outputs, rtol, atol))
        right = [prepared.run for prepared, _ in checked if prepared is not None]
        times = iter(time_in_turns(right, seconds, clock))
        measurements += [found if prepared is None else _timed(found, next(times)) for prepared, found in checked]
    return Benchmark(measurements, {one.name: one.threads for one in contenders}, cpu_count(), notes)


def _checked(
    contenders: Iterable[Contender[_T]], where: str, run: _T, outputs: Sequence[str], rtol: float | None, atol: float | None
) -> Iterator[tuple[PreparedRun | None, Measurement]]:  # fmt: skip
    """Each contender ready for the run, or None where it has a problem, and what is known of it so far."""
    wanted: Sequence[Array] | None = None
    for contender in contenders:
        found = Measurement(contender.name, where)
        try:
            prepared = contender.prepare(run)
            arrays = prepared.outputs()
        except Jax2OnnxError as error:
            yield None, dataclasses.replace(found, problem=f"not measured: {error}")
            continue
        # Runtimes raise what they like when a kernel fails; the others are measured nevertheless.
        except Exception as error:
            if wanted is None:
                raise
            yield None, dataclasses.replace(found, problem=f"not measured: {type(error).__name__}: {error}")
            continue
        wanted = arrays if wanted is None else wanted
        largest, problem = _difference(outputs, arrays, wanted, where, rtol, atol)
        is_wrong = bool(problem)
        yield (
            None if is_wrong else prepared,
            dataclasses.replace(found, difference=largest, problem=problem, is_wrong=is_wrong),
        )


def _difference(
    names: Sequence[str], arrays: Sequence[Array], wanted: Sequence[Array], where: str, rtol: float | None, atol: float | None
) -> tuple[float, str]:  # fmt: skip
    """The largest difference of outputs from the wanted ones, and in words what differs by more than the tolerance."""
    largest = 0.0
    if len(arrays) != len(wanted):
        return largest, f"not measured: there are {len(arrays)} outputs instead of {len(wanted)}"
    for name, got, want in zip(names, arrays, wanted, strict=True):
        try:
            error = output_error(name, got, want, where, rtol=rtol, atol=atol)
        except VerificationError as shapes:
            return largest, f"not measured: {shapes}"
        largest = max(largest, error.largest)
        if not error.is_close:
            return largest, f"not measured: output {name!r} is wrong in {error.detail}"
    return largest, ""


def _timed(found: Measurement, times: Sequence[float]) -> Measurement:
    low, median, high = map(float, np.percentile(times, (25, 50, 75)))
    return dataclasses.replace(found, runs=len(times), median=median, least=min(times), quartiles=(low, high))


def time_in_turns(
    calls: Sequence[Callable[[], object]], seconds: float, clock: Clock = time.perf_counter
) -> list[list[float]]:
    """Measure calls in turns, so that what else the machine does meets all of them alike.

    In each round every call is made several times, in another order; of short ones the first time is not counted, as threads of
    the call before it may still be busy.

    Args:
      calls: what is measured; each was made once before.
      seconds: how long all is measured; at least three rounds are.
      clock: what tells the time.

    Returns:
      The seconds of each call, time by time.
    """
    times: list[list[float]] = [[] for _ in calls]
    end, rounds = clock() + seconds, 0
    while calls and (rounds < _LEAST_ROUNDS or clock() < end):
        for place in range(len(calls)):
            number = (place + rounds) % len(calls)
            once = _seconds(calls[number], clock)
            times[number] += [] if once < _SHORT else [once]
            times[number] += [_seconds(calls[number], clock) for _ in range(_RUNS_OF_A_ROUND - (once >= _SHORT))]
        rounds += 1
    return times


def _seconds(call: Callable[[], object], clock: Clock) -> float:
    start = clock()
    call()
    return clock() - start


def model_contender(
    name: str, load: Callable[[RuntimeOptions], LoadedModel], feeds: Callable[[_T], Mapping[str, Array]], *,
    threads: int | None = None,
) -> Contender[_T]:  # fmt: skip
    """A model in its runtime, which loads it at the first run.

    Args:
      name: what tables call it.
      load: loads the model with options.
      feeds: the inputs of the model for a run.
      threads: how many threads compute one operator; by default the runtime chooses.

    Raises:
      OptionError: `threads` is no number from 1 on.
    """
    check_count("threads", threads, least=1)
    found: list[LoadedModel] = []

    def prepare(run: _T) -> PreparedRun:
        if not found:
            found.append(load(RuntimeOptions(threads=threads)))
        arrays, (loaded,) = feeds(run), found
        return PreparedRun(lambda: loaded(arrays), lambda: loaded(arrays))

    return Contender(name, "as it chooses" if threads is None else str(threads), prepare)


def benchmark_model(
    model: ir.Model, runtimes: Sequence[Runtime], *, file: Path | None = None, sizes: Sequence[Sizes] | None = None,
    seed: int = 0, seconds: float = 1.0, threads: int | None = None, rtol: float | None = None, atol: float | None = None,
) -> Benchmark:  # fmt: skip
    """Measure how long a model takes in several runtimes, on random inputs.

    Args:
      model: the model, of any producer.
      runtimes: the runtimes, of which the first is right.
      file: the file that the model was read from, which the runtimes then load themselves.
      sizes: symbols → numbers, one mapping for each row; by default 1, 8 and 64.
      seed: that of the random inputs.
      seconds: how long each row is measured, all runtimes together.
      threads: how many threads compute one operator; by default each runtime chooses.
      rtol: the relative tolerance; by default that of each output's dtype.
      atol: the absolute tolerance; by default `rtol` times the largest number of the output.

    Raises:
      TargetError: a runtime is not installed.
      SymbolError: there is no such symbol, or it cannot have this size.
      RuntimeInputError: there are no random arrays for an input.
    """
    if sizes is not None:
        check_runs(sizes)
    space = symbol_space(model)
    found = usual_sizes(space) if sizes is None else sizes
    runs = (feeds_of(model, {}, sizes=one, seed=seed + number) for number, one in enumerate(found))
    return benchmark(
        [_contender(file or model, runtime.installed(), threads) for runtime in runtimes],
        {sizes_text(model, feeds) or "the shapes of the model": feeds for feeds in runs},
        [value.name or "" for value in model.graph.outputs], seconds=seconds, rtol=rtol, atol=atol,
    )  # fmt: skip


def _contender(source: ir.Model | Path, runtime: Runtime, threads: int | None) -> Contender[Mapping[str, Array]]:
    def load(options: RuntimeOptions) -> LoadedModel:
        return runtime.open(source, (), options).run if options.given() else runtime.load(source)

    return model_contender(runtime.title, load, lambda feeds: feeds, threads=threads)


def usual_sizes(space: SymbolSpace) -> list[dict[str, int]]:
    """Sizes to measure at where nobody says any: 1, 8 and 64 for all symbols, or the next that are possible.

    Raises:
      SymbolError: no sizes were found that fit the constraints.
    """
    found = [find_sizes(space, dict.fromkeys(space.names, range(size, 4 * size))) for size in _USUAL]
    return [sizes for number, sizes in enumerate(found) if sizes not in found[:number]]


def cpu_count() -> int:
    """Number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
