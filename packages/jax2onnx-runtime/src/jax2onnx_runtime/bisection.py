"""`Bisection`: the values of a model beside those of the function that it was made of, and where they part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype

from jax2onnx_runtime._html import html_table
from jax2onnx_runtime.accuracy import OutputAccuracy, accuracy
from jax2onnx_runtime.comparison import compare, tolerance
from jax2onnx_runtime.runtimes import Runtime

__all__ = ["Bisection", "ComparedValue", "Element", "EquationSource", "Intermediate", "bisect", "observed_values"]

_WORST = 3
_ROWS = 10


@dataclasses.dataclass(frozen=True)
class EquationSource:
    """An equation in the words of its user.

    Attributes:
      operation: the primitive, or the name of the call.
      lowered_by: the rule or decomposition, "module:function"; None for an operation that stands for other equations.
      owner: the distribution that it is of; empty where there is no equation.
      line: the user's line, "file:line (function)", or what else says where it is; None where that is not known.
      module: the path of the part of the model; empty outside of named scopes.
    """

    operation: str
    lowered_by: str | None = None
    owner: str = ""
    line: str | None = None
    module: str = ""


_RESULT = EquationSource("result")
_WHOLE = EquationSource("the model as a whole")
_CALL = EquationSource("the call of the function")


@dataclasses.dataclass(frozen=True)
class Intermediate:
    """The array that a value of the model should be.

    Attributes:
      name: that of the value in the model; empty where the model does not compute it.
      source: the equation whose result it is.
      array: the result.
      axes: the axes of the value in the order of the result, where the model has another layout.
    """

    name: str
    source: EquationSource
    array: Array
    axes: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Element:
    """One number of an array: its index, what the model gives, and what it should give."""

    index: tuple[int, ...]
    got: np.generic
    want: np.generic

    def __str__(self) -> str:
        return f"{list(self.index)}: {self.got!s} instead of {self.want!s}"


@dataclasses.dataclass(frozen=True, eq=False)
class ComparedValue:
    """A value of the model beside that of the function.

    Attributes:
      name: that of the value in the model.
      source: the equation whose result it is; the operation is "result" for an output that no equation computes, "the model
        as a whole" for one that is right only while the values are looked at, and "the call of the function" for one that is what
        the traced equations give, but not what the function returns.
      operator: the operator that computes the value; empty for an input or a constant.
      dtype, shape: those that it should have.
      is_close: whether all elements are equal within the tolerance; NaN equals NaN.
      detail: how many elements differ, and the first of them; empty if all are close.
      error: the size of the difference.
      worst: the elements that differ most.
    """

    name: str
    source: EquationSource
    operator: str
    dtype: Dtype
    shape: tuple[int, ...]
    is_close: bool
    detail: str
    error: OutputAccuracy
    worst: Sequence[Element]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Bisection:
    """The values that were compared, in the order in which the function computes them; its text says where they part.

    Attributes:
      values: the values; the bisection is a sequence of them.
      where: what was compared on.
      absent: the equations whose results the model does not compute: they went into other operators, layouts or weights.
      reference: what was compared with, in words.
    """

    values: Sequence[ComparedValue]
    where: str
    absent: Sequence[EquationSource] = ()
    reference: str = "the function"

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[ComparedValue]:
        return iter(self.values)

    def __getitem__(self, index: int) -> ComparedValue:
        return self.values[index]

    @property
    def differing(self) -> list[ComparedValue]:
        """The values that differ by more than the tolerance."""
        return [value for value in self if not value.is_close]

    @property
    def first(self) -> ComparedValue | None:
        """The first of them; None where nothing differs."""
        return next(iter(self.differing), None)

    def with_call(
        self, names: Sequence[str], got: Sequence[Array], want: Sequence[Array], *, rtol: float | None, atol: float | None
    ) -> Bisection:  # fmt: skip
        """The same with those outputs, in addition, for which the traced equations give something else than a call of the function.

        Args:
          names: the names of the outputs.
          got: what the traced equations give.
          want: what the function returned.
          rtol: the relative tolerance; by default that of each output's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the output.
        """
        outputs = (
            _compared(Intermediate(name, _CALL, array), "", output, 0.0, rtol, atol)
            for name, output, array in zip(names, got, want, strict=True)
        )
        return dataclasses.replace(self, values=[*self.values, *(value for value in outputs if not value.is_close)])

    def by_error(self) -> list[ComparedValue]:
        """The values that are not equal, those with the most noise first."""
        return sorted((value for value in self if value.error.largest), key=lambda value: value.error.snr)

    def by_module(self) -> list[ComparedValue]:
        """The last value of each part of the model, those with the most noise first."""
        last = {value.source.module: value for value in self}
        return [value for value in self.by_error() if value in last.values()]

    def __str__(self) -> str:
        return "\n".join([*self._verdict(), *(_table(self.by_error()) if self.first else ())])

    __repr__ = __str__

    def _verdict(self) -> Iterator[str]:
        first = self.first
        if first is None:
            yield f"Nothing differs: {len(self)} values agree, at {self.where}.{self._not_compared()}"
        elif first.source is _WHOLE:
            yield (
                f"All {self.values.index(first)} values agree, at {self.where}, but {first.name!r} does not while nobody looks at "
                f"the others: {first.detail}. The runtime makes one operator of several then, and that one computes something else."
            )
        elif first.source is _CALL:
            yield (
                f"All {self.values.index(first)} values are what the traced equations give, at {self.where}, but for the output {first.name!r} "
                f"these give something else than a call of the function: {first.detail}. That is so where the function "
                "branches on a size or a setting, or depends on what another call has changed, or where its result hangs on the last digits, which XLA "
                "rounds otherwise when it compiles operations together."
            )
        else:
            before = self.values.index(first)
            after = self.values[before + 1 :]
            yield f"The first difference, at {self.where}: {first.source.operation}"
            yield from _description(first)
            differ = sum(not value.is_close for value in after)
            yield (
                f"Compared before it: {before}, all close. After it: {len(after)}, of which {differ} differ."
                f"{self._not_compared()}"
            )

    def _not_compared(self) -> str:
        """A sentence about the values that could not be compared, if there are some."""
        if not self.absent:
            return ""
        names = ", ".join(dict.fromkeys(source.operation for source in self.absent))
        return (
            f" {len(self.absent)} more values of {self.reference} are not in the model, in which they are parts of other operators, "
            f"layouts or weights: {names}."
        )

    def _repr_html_(self) -> str:
        return html_table(
            ("SNR", "largest", "scale", "value", "operation", "line"), [
                (f"{value.error.snr:.1f} dB", f"{value.error.largest:.3g}", f"{value.error.scale:.3g}", value.name,
                 value.source.operation, (value.source.line or "").rpartition("/")[-1])
                for value in self.by_error()[:_ROWS]
            ], "\n".join(self._verdict()),
        )  # fmt: skip


def _description(value: ComparedValue) -> Iterator[str]:
    source = value.source
    yield f"  line        {source.line or 'unknown'}"
    if source.module:
        yield f"  module      {source.module}"
    if source.owner:
        yield f"  lowered by  {source.lowered_by or 'the equations that it stands for'}, {source.owner}"
    yield f"  value       {value.name}, {value.dtype}{list(value.shape)}" + (
        value.operator and f", by {value.operator}"
    )
    yield f"  difference  {value.detail.partition(';')[0]}"
    yield from (f"    at {element}" for element in value.worst)


def _table(values: Sequence[ComparedValue]) -> Iterator[str]:
    yield f"{'SNR':>9} {'largest':>9} {'scale':>9}  value, operation, line"
    for value in values[:_ROWS]:
        error, line = value.error, (value.source.line or "").rpartition("/")[-1]
        yield f"{error.snr:6.1f} dB {error.largest:9.3g} {error.scale:9.3g}  {value.name}, {value.source.operation}, {line}"
    if len(values) > _ROWS:
        yield f"… and {len(values) - _ROWS} more"


def bisect(
    model: ir.Model, runtime: Runtime, feeds: Mapping[str, Array], intermediates: Sequence[Intermediate],
    results: tuple[Sequence[Array], Sequence[Array]], where: str, *, rtol: float | None, atol: float | None, least: float = 0.0,
) -> Bisection:  # fmt: skip
    """Compare values of a model.

    Args:
      model: the model.
      runtime: what runs it.
      feeds: the inputs of the run.
      intermediates: what its values should be, in order; those that the model does not have are left out.
      results: what its outputs are, and should be.
      where: what is said of the run.
      rtol: the relative tolerance; by default that of a value's dtype, or of the one with the fewest bits that stands for another.
      atol: the absolute tolerance; by default `rtol` times the largest number of the value.
      least: the relative tolerance of floats, if that of their dtype is less and `rtol` is not given.
    """
    producers = {value.name: node.op_type for node in model.graph for value in node.outputs if value.name}
    wanted = dict.fromkeys(one.name for one in intermediates if one.name in producers)
    got = {**_constants(model, intermediates), **feeds, **observed_values(model, runtime, list(wanted), feeds)}
    present = [one for one in intermediates if one.name in got]
    absent = [one.source for one in intermediates if one.name not in got]
    narrowed = [got[one.name].dtype for one in present if got[one.name].dtype != one.array.dtype]
    tolerances = max([least, *map(tolerance, narrowed)]), rtol, atol
    values = [_compared(one, producers.get(one.name, ""), got[one.name], *tolerances) for one in present]
    compared = {value.name for value in values}
    for output, alone, array in zip(model.graph.outputs, *results, strict=True):
        name, operator = output.name or "", producers.get(output.name or "", "")
        seen = _compared(Intermediate(name, _RESULT, array), operator, got[name], *tolerances)
        whole = _compared(Intermediate(name, _WHOLE, array), operator, alone, *tolerances)
        values += [] if name in compared else [seen]
        values += [whole] if seen.is_close and not whole.is_close else []
    return Bisection(values, where, absent)


def _constants(model: ir.Model, wanted: Iterable[Intermediate]) -> dict[str, Array]:
    found = {one.name: model.graph.initializers.get(one.name) for one in wanted if one.name}
    return {name: v.const_value.numpy() for name, v in found.items() if v is not None and v.const_value is not None}


def observed_values(
    model: ir.Model, runtime: Runtime, names: Sequence[str], feeds: Mapping[str, Array]
) -> dict[str, Array]:
    """The arrays of values inside the model, in a run."""
    copy = model.clone()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    outputs = list(dict.fromkeys([*copy.graph.outputs, *(values[name] for name in names)]))
    copy.graph.outputs[:] = outputs
    arrays = runtime.load(copy)(feeds)
    return {value.name or "": array for value, array in zip(outputs, arrays, strict=True)}


def _compared(
    one: Intermediate, operator: str, got: Array, least: float, rtol: float | None, atol: float | None
) -> ComparedValue:
    """A value beside what it should be; by default, the relative tolerance for numbers that are rounded is at least `least`."""
    want, got = one.array, got if one.axes is None else got.transpose(one.axes)
    shown = (one.name, one.source, operator, want.dtype, want.shape)
    if got.shape != want.shape:
        infinite = OutputAccuracy(one.name, np.inf, np.inf, 0.0, -np.inf)
        return ComparedValue(
            *shown, False, f"the shape is {list(got.shape)} instead of {list(want.shape)}", infinite, ()
        )
    found = compare(got, want, rtol=rtol, atol=atol, least=least)
    error = accuracy([one.name], [([want], [got])]).outputs[0]
    return ComparedValue(*shown, found.is_close, found.detail, error, () if found.is_close else _worst(got, want))


def _worst(got: Array, want: Array) -> list[Element]:
    """The elements that differ most; one that is no number where the other is, more than all."""
    wide = np.complex128 if np.issubdtype(want.dtype, np.complexfloating) else np.float64
    with np.errstate(invalid="ignore"):
        distance = np.array(np.abs(got.astype(wide) - want.astype(wide)))
    distance[distance == 0] = np.finfo(np.float64).tiny  # whole numbers that float64 does not tell apart
    distance[(got == want) | ((got != got) & (want != want))] = 0.0
    distance[np.isnan(distance)] = np.inf
    order = np.argsort(-distance, axis=None, kind="stable")[:_WORST]
    indices = (tuple(int(i) for i in np.unravel_index(flat, got.shape)) for flat in order)
    return [Element(index, got[index], want[index]) for index in indices if distance[index] > 0]
