"""Test cases as data: what a plugin declares, what the testing kit turns into tests."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, get_args

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array

from jax2onnx_core.plugins.expectations import ExpectGraph, expect_graph

__all__ = [
    "Case",
    "CaseRun",
    "Check",
    "Construct",
    "ExpectGraph",
    "Precision",
    "Tolerance",
    "construct",
    "expect_graph",
    "with_dtype",
    "with_rngs",
]

Precision = Literal["f32", "f64"]
#: A tolerance of a case: that of both precisions, or of those that are named; None for that of the dtype.
Tolerance = float | Mapping[Precision, float] | None
Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class _WithDtype:
    pass


@dataclasses.dataclass(frozen=True)
class _WithRngs:
    seed: int


def with_dtype() -> Any:
    """Placeholder inside `construct`: the float dtype of the variant (float32 or float64)."""
    return _WithDtype()


def with_rngs(seed: int) -> Any:
    """Placeholder inside `construct`: fresh random streams of this seed for each variant."""
    return _WithRngs(seed)


@dataclasses.dataclass(frozen=True)
class Construct:
    """A callable to build anew for each variant; see `construct`."""

    factory: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def construct(factory: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Construct:
    """A callable that is built anew for each variant of a case, never at import.

    Args:
      factory: builds it: a class, or a function that returns a callable.
      args: its positional arguments; the placeholders `with_dtype()` and `with_rngs(seed)` are filled in.
      kwargs: its keyword arguments, likewise.
    """
    return Construct(factory, args, kwargs)


@dataclasses.dataclass(frozen=True)
class CaseRun:
    """One run of the model of a case.

    Attributes:
      sizes: the sizes of its symbols.
      inputs: the arrays that the model was given, by the names of its inputs.
      outputs: the arrays that it gave, by the names of its outputs.
    """

    sizes: Mapping[str, int]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


#: What a case asserts by itself of its model and of a run; see `Case.check`.
Check = Callable[[ir.Model, CaseRun], None]


@dataclasses.dataclass(frozen=True)
class Case:
    """One test case: converted, run and compared with JAX as f32 and f64, at several sizes.

    Args:
      name: unique within the plugin module.
      fn: the callable, or `construct(...)` of one.
      inputs: one entry per positional argument: a shape tuple (the variant's float dtype), or
        `(shape, dtype)`, or a concrete array (fixed values; float arrays take the variant's dtype).
        A dimension may be a string.
      covers: primitives and composites that this case is the evidence for.
      expect: the structure of the exported graph, checked on the f32 variant (f64 if that is skipped): the path of all its operators (`"Floor -> Sub"`) or several that name
        all of them together, or whatever `expect_graph` says.
      values: "special" mixes NaN, infinities, signed zeros and extremes into the inputs, "finite"
        is standard normal, "positive" is in (0, 3), "unit" is in (-1, 1).
      rtol: the relative tolerance, or one for each precision; None for that of the dtype.
      atol: the absolute tolerance, or one for each precision; None for that of the dtype.
      options: further keyword arguments of `to_onnx`.
      skip: variant name ("f32", "f64") → the reason for which it is skipped.
      doc: a sentence that says what the case shows, where its name does not.
      since: the version of the package in which what the case shows first worked.
      check: asserts what neither `expect` nor the comparison with JAX says: attributes of operators, weights, or that a result is exact.
        It is called with the model and with each run of the variant on which `expect` is checked.
      declines: the reasons, or parts of them, for which rules decline and formulas stay as they are on the way, shown in the report or not; others
        may be there. They are checked where `expect` is.

    Raises:
      ValueError: a tolerance is no number from 0 on, a precision is unknown, or `doc` is no sentence.
    """

    name: str
    fn: Any
    inputs: Sequence[Any] = ()
    covers: tuple[str, ...] = ()
    expect: str | ExpectGraph | Sequence[str | ExpectGraph] = ()
    values: Literal["special", "finite", "positive", "unit"] = "finite"
    rtol: Tolerance = None
    atol: Tolerance = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    skip: Mapping[Precision, str] = dataclasses.field(default_factory=dict)
    doc: str = ""
    since: str | None = None
    check: Check | None = None
    declines: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        self._check_precisions("skip", self.skip)
        self._check_tolerance("rtol", self.rtol)
        self._check_tolerance("atol", self.atol)
        if self.doc and not (self.doc.endswith(".") and self.doc.isprintable()):
            raise ValueError(
                f"Case {self.name!r}: doc has to be a sentence of one line that ends with a full stop, not {self.doc!r}."
            )

    @property
    def expectations(self) -> list[ExpectGraph]:
        """The expectations of `expect`: its paths as one, which is exact, and those made by `expect_graph`."""
        given = [self.expect] if isinstance(self.expect, str | ExpectGraph) else self.expect
        paths = [one for one in given if isinstance(one, str)]
        exact = [expect_graph(*paths, match="exact")] if paths else []
        return [*exact, *(one for one in given if isinstance(one, ExpectGraph))]

    def tolerances(self, precision: Precision) -> tuple[float | None, float | None]:
        """The relative and the absolute tolerance in a precision; None for that of the dtype."""
        return _in_precision(self.rtol, precision), _in_precision(self.atol, precision)

    def _check_tolerance(self, field: str, tolerance: Tolerance) -> None:
        if isinstance(tolerance, Mapping):
            self._check_precisions(field, tolerance)
        for number in tolerance.values() if isinstance(tolerance, Mapping) else [tolerance]:
            if number is not None and not (isinstance(number, Real) and 0 <= number < math.inf):
                raise ValueError(f"Case {self.name!r}: {field} has to be a number from 0 on, not {number!r}.")

    def _check_precisions(self, field: str, by_precision: Mapping[Precision, object]) -> None:
        known = get_args(Precision)
        if unknown := sorted(set(by_precision) - set(known)):
            raise ValueError(
                f"Case {self.name!r}: {field} names {', '.join(unknown)}, but the precisions are {', '.join(known)}."
            )


def _in_precision(tolerance: Tolerance, precision: Precision) -> float | None:
    return tolerance.get(precision) if isinstance(tolerance, Mapping) else tolerance
