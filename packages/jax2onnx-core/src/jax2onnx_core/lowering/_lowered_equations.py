"""`LoweredJaxpr`: which values of a model hold which results of a function's equations, however passes rewrite the model."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.origins import add_origin, origins_of
from jax2onnx_runtime.bisection import EquationSource

from jax2onnx_core.lowering._scope import Scope

__all__ = ["EquationRecorder", "LoweredEquation", "LoweredJaxpr"]


@dataclasses.dataclass(eq=False)
class LoweredEquation:
    """An equation that was lowered.

    Attributes:
      source: its operation, rule and line.
      call: for an equation that stands for others, the parameter that holds their jaxpr, the places of its operands among
        those of the equation, and what became of it.
      held: result → the name of the finished model's value that holds it, and the axes of this value in the order of the
        result, None where the layout is the same; without those that passes removed.
    """

    source: EquationSource
    call: tuple[str, Sequence[int], LoweredJaxpr] | None = None
    held: dict[int, tuple[str, tuple[int, ...] | None]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class LoweredJaxpr:
    """The equations of a function, or of a call in it, while they are lowered and afterwards.

    Attributes:
      given: the object that holds the equations.
      scope: the graph that they are lowered into.
      operands, results: the values that the lowering begins with and gives.
      equations: an equation by its place in order; without those that were evaluated at export.
      calls: the jaxprs that rules lowered for the equation whose turn it is.
    """

    given: object
    scope: Scope
    operands: Sequence[Value]
    results: Sequence[Value] = ()
    equations: dict[int, LoweredEquation] = dataclasses.field(default_factory=dict)
    calls: list[LoweredJaxpr] = dataclasses.field(default_factory=list)


class EquationRecorder:
    """Records the equations of a function's main graph while they are lowered, those of calls in it included."""

    def __init__(self) -> None:
        self._outermost: LoweredJaxpr | None = None
        self._open: list[LoweredJaxpr] = []

    @contextlib.contextmanager
    def lowering(self, given: object, scope: Scope, operands: Sequence[Value]) -> Iterator[LoweredJaxpr]:
        """Inside, the equations that `given` holds are lowered; the caller says what their results are.

        Args:
          given: the object that holds the equations, a jaxpr.
          scope: the graph that they are lowered into.
          operands: the values that the lowering begins with.
        """
        jaxpr = LoweredJaxpr(given, scope, operands)
        self._open.append(jaxpr)
        try:
            yield jaxpr
        finally:
            self._open.pop()
        if self._open:
            self._open[-1].calls.append(jaxpr)
        self._outermost = jaxpr

    def lowered(
        self, index: int, source: EquationSource, params: Mapping[str, object], operands: Sequence[Value],
        results: Sequence[Value],
    ) -> None:  # fmt: skip
        """The equation at `index` of the innermost jaxpr was lowered.

        Args:
          index: the place of the equation.
          source: its operation, rule and line.
          params: those of its parameters that are jaxprs with its results.
          operands: the values of its operands.
          results: the values of its results.
        """
        jaxpr = self._open[-1]
        if jaxpr.scope is self._open[0].scope:
            jaxpr.equations[index] = equation = LoweredEquation(source, _call(jaxpr, params, operands, results))
            for number, value in enumerate(results) if equation.call is None else ():
                add_origin(value, (equation, number))
        jaxpr.calls.clear()

    def finish(self, model: ir.Model) -> LoweredJaxpr:
        """The function's equations, with the names of the finished model's values."""
        assert self._outermost is not None, "a function was lowered"
        graph = model.graph
        for value in (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)):
            for origin in origins_of(value):
                equation, number = cast("tuple[LoweredEquation, int]", origin.result)
                if origin.axes is None or number not in equation.held:
                    equation.held[number] = value.name or "", origin.axes
        return self._outermost


def _call(
    jaxpr: LoweredJaxpr, params: Mapping[str, object], operands: Sequence[Value], results: Sequence[Value]
) -> tuple[str, Sequence[int], LoweredJaxpr] | None:
    """The call that an equation is nothing but: its own parameter, lowered in its place on its operands."""
    for call in jaxpr.calls:
        name = next((name for name, value in params.items() if value is call.given), None)
        given = all(any(value is operand for operand in operands) for value in call.operands)
        same = len(call.results) == len(results) and all(map(_is, call.results, results))
        if name is not None and call.scope is jaxpr.scope and given and same:
            return name, [next(i for i, o in enumerate(operands) if o is value) for value in call.operands], call
    return None


def _is(one: object, other: object) -> bool:
    return one is other
