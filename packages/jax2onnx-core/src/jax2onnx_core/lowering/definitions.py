"""`Definition`: the equation whose result a value of the graph is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jax2onnx_graph.build.builder import Value

from jax2onnx_core.jax_types import Aval, Equation, Params

__all__ = ["Definition"]


class Definition(NamedTuple):
    """The equation whose result a value is, so that rules can learn from it what the value holds.

    A value that several equations give, as a call and what it calls do, has the innermost one.

    Attributes:
      primitive: the name of the primitive.
      params: the parameters of the equation.
      operands: the values of its operands; each was there before the value.
      avals_in, avals_out: JAX's abstract values of its operands and results.
      result: the place of the value among the results.
      equation: the equation of the jaxpr, which for a composite has another primitive and other parameters; None for one that a rule states.
    """

    primitive: str
    params: Params
    operands: Sequence[Value]
    avals_in: Sequence[Aval]
    avals_out: Sequence[Aval]
    result: int = 0
    equation: Equation | None = None

    @property
    def aval(self) -> Aval:
        """JAX's abstract value of the value."""
        return self.avals_out[self.result]
