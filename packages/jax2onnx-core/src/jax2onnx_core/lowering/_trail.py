"""`Trail`: which values of a model hold which results of a function's equations, however passes rewrite the model."""

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

__all__ = ["Body", "Step", "Trail"]


@dataclasses.dataclass(eq=False)
class Step:
    """A lowered equation.

    Attributes:
      source: what it is.
      inner: for an equation that stands for others, the parameter that holds these, the places of their operands among
        its own, and their steps.
      names: result → the value of the finished model that holds it; without those that passes removed.
    """

    source: EquationSource
    inner: tuple[str, Sequence[int], Body] | None = None
    names: dict[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Body:
    """The equations of a function, or of a call in it, while they are lowered and afterwards.

    Attributes:
      given: what holds the equations.
      scope: the graph that they are lowered into.
      operands, results: the values that they begin with and give.
      steps: equation, by its place in order → what became of it; without those that were evaluated at export.
      calls: what the rules lowered for the equation whose turn it is.
    """

    given: object
    scope: Scope
    operands: Sequence[Value]
    results: Sequence[Value] = ()
    steps: dict[int, Step] = dataclasses.field(default_factory=dict)
    calls: list[Body] = dataclasses.field(default_factory=list)


class Trail:
    """What is recorded while a function is lowered: the equations of its main graph, those of calls in it included.

    Attributes:
      body: the equations of the function.
    """

    def __init__(self) -> None:
        self.body: Body
        self._open: list[Body] = []

    @contextlib.contextmanager
    def body_of(self, given: object, scope: Scope, operands: Sequence[Value]) -> Iterator[Body]:
        """Inside, the equations that `given` holds are lowered; the caller says what their results are."""
        body = Body(given, scope, operands)
        self._open.append(body)
        try:
            yield body
        finally:
            self._open.pop()
        if self._open:
            self._open[-1].calls.append(body)
        self.body = body

    def lowered(
        self,
        index: int,
        source: EquationSource,
        params: Mapping[str, object],
        operands: Sequence[Value],
        results: Sequence[Value],
    ) -> None:
        """The equation at `index` of the innermost body was lowered."""
        body = self._open[-1]
        if body.scope is self._open[0].scope:
            body.steps[index] = step = Step(source, _meaning(body, params, operands, results))
            for number, value in enumerate(results) if step.inner is None else ():
                add_origin(value, (step, number))
        body.calls.clear()

    def finish(self, model: ir.Model) -> Body:
        """The equations, whose steps know the values of the finished model."""
        graph = model.graph
        for value in (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)):
            for origin in origins_of(value):
                step, number = cast("tuple[Step, int]", origin)
                step.names[number] = value.name or ""
        return self.body


def _meaning(
    body: Body, params: Mapping[str, object], operands: Sequence[Value], results: Sequence[Value]
) -> tuple[str, Sequence[int], Body] | None:
    """The call that an equation is nothing but: its own parameter, lowered in its place on its operands."""
    for call in body.calls:
        name = next((name for name, value in params.items() if value is call.given), None)
        given = all(any(value is operand for operand in operands) for value in call.operands)
        same = len(call.results) == len(results) and all(map(_is, call.results, results))
        if name is not None and call.scope is body.scope and given and same:
            return name, [next(i for i, o in enumerate(operands) if o is value) for value in call.operands], call
    return None


def _is(one: object, other: object) -> bool:
    return one is other
