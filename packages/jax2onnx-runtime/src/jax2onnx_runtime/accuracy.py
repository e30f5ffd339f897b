"""Accuracy of a quantised model: the distance of its results from those in full precision."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError

from jax2onnx_runtime._html import html_table

__all__ = ["Accuracy", "OutputAccuracy", "accuracy"]


@dataclasses.dataclass(frozen=True)
class OutputAccuracy:
    """The differences of one output.

    Attributes:
      name: that of the output.
      largest: the largest absolute difference.
      mean: the mean absolute difference.
      scale: the largest absolute number of the output in full precision.
      snr: the ratio of signal to noise in decibels: 20 are 10 % of noise, 40 are 1 %; infinite where all is equal.
      size: how many numbers were compared.
      finite: how many of them are finite in full precision.
    """

    name: str
    largest: float
    mean: float
    scale: float
    snr: float
    size: int = 0
    finite: int = 0


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """The differences of all outputs, in the runs that were compared.

    Attributes:
      outputs: one entry for each output of floating-point numbers or integers.
      runs: how many runs were compared.
      loss: the mean of the user's loss, if one was given.
      original_loss: the same in full precision.
    """

    outputs: Sequence[OutputAccuracy]
    runs: int
    loss: float | None = None
    original_loss: float | None = None

    @property
    def worst(self) -> OutputAccuracy:
        """The output with the most noise."""
        return min(self.outputs, key=lambda output: output.snr)

    def _repr_html_(self) -> str:
        loss = "" if self.loss is None else f"loss {self.loss:.6g}, in full precision {self.original_loss:.6g}"
        titles = ("output", "largest", "mean", "scale", "SNR")
        rows = [
            (one.name, f"{one.largest:.3g}", f"{one.mean:.3g}", f"{one.scale:.3g}", f"{one.snr:.1f} dB")
            for one in self.outputs
        ]
        return html_table(titles, rows, loss)

    def __str__(self) -> str:
        lines = [f"{'output':24} {'largest':>10} {'mean':>10} {'scale':>10} {'SNR':>8}"]
        lines += [f"{o.name:24} {o.largest:10.3g} {o.mean:10.3g} {o.scale:10.3g} {o.snr:5.1f} dB" for o in self.outputs]
        if self.loss is not None:
            lines.append(f"loss {self.loss:.6g}, in full precision {self.original_loss:.6g}")
        return "\n".join(lines)


def accuracy(
    names: Sequence[str], runs: Iterable[tuple[Sequence[Array], Sequence[Array]]],
    losses: Sequence[tuple[float, float]] = (),
) -> Accuracy:  # fmt: skip
    """The differences between the outputs of runs: those in full precision, and those to judge.

    A number that is not finite in full precision counts as equal where the other is the same, as infinitely far where not.

    Args:
      names: those of the outputs.
      runs: the outputs in full precision, and the others.
      losses: the user's loss of each run in full precision, and of the other; read after the runs.

    Raises:
      OptionError: there are no runs.

    >>> print(accuracy(["y"], [([np.array([2.0, 0.0])], [np.array([2.0, 0.02])])]).outputs[0])
    OutputAccuracy(name='y', largest=0.02, mean=0.01, scale=2.0, snr=40.0, size=2, finite=2)
    """
    sums, count = [_Sums(name) for name in names], 0
    for wanted, got in runs:
        count += 1
        for total, want, value in zip(sums, wanted, got, strict=True):
            total.add(_numbers(want), _numbers(value))
    if not count:
        raise OptionError("There is nothing to compare: no inputs and no results were given.")
    outputs = [total.result() for total in sums]
    if not losses:
        return Accuracy(outputs, count)
    original_loss, loss = np.mean(losses, axis=0)
    return Accuracy(outputs, count, float(loss), float(original_loss))


def _numbers(array: Array) -> Array:
    """The elements of an array as real numbers, those of a complex one as its two parts."""
    array = np.asarray(array)
    return np.asarray([array.real, array.imag] if array.dtype.kind == "c" else array, np.float64)


def _norm(array: Array) -> float:
    """The root of the sum of the squares of numbers, which may be too large or too small to be squared."""
    largest = float(np.abs(array).max(initial=0.0))
    return largest * math.sqrt(((array / largest) ** 2).sum()) if 0 < largest < math.inf else largest


@dataclasses.dataclass
class _Sums:
    name: str
    largest: float = 0.0
    absolute: float = 0.0
    noise: float = 0.0
    signal: float = 0.0
    scale: float = 0.0
    count: int = 0
    finite: int = 0

    def add(self, want: Array, got: Array) -> None:
        is_number = np.isfinite(want)
        with np.errstate(invalid="ignore"):
            error = np.where(
                is_number, np.abs(got - want), np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.inf)
            )
        error, want = np.where(np.isnan(error), np.inf, error), want[is_number]
        self.largest = max(self.largest, float(error.max(initial=0.0)))
        self.scale = max(self.scale, float(np.abs(want).max(initial=0.0)))
        self.absolute += float(error.sum())
        self.noise = math.hypot(self.noise, _norm(error))
        self.signal = math.hypot(self.signal, _norm(want))
        self.count += error.size
        self.finite += int(is_number.sum())

    def result(self) -> OutputAccuracy:
        ratio = self.signal / self.noise if self.noise else math.inf
        snr = 20 * math.log10(ratio) if 0 < ratio < math.inf else (-math.inf if not ratio else math.inf)
        mean = self.absolute / max(self.count, 1)
        return OutputAccuracy(self.name, self.largest, mean, self.scale, snr, self.count, self.finite)
