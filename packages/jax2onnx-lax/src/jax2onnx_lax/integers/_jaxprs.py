"""What is known of the integers of a jaxpr before it is lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax.extend.core
import numpy as np
from jax2onnx_core import Jaxpr
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import is_literal, open_jaxpr
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax._called import called_jaxpr
from jax2onnx_lax.integers._domain import Integers, constant, holds_integers, unknown
from jax2onnx_lax.integers._transfer import result

__all__ = ["IntegersOfJaxpr"]


class IntegersOfJaxpr:
    """What is known of the integers of a jaxpr and of what it calls.

    Args:
      jaxpr: the jaxpr.
      inputs: what is known of its inputs.
    """

    def __init__(self, jaxpr: Jaxpr, inputs: Mapping[Var, Integers]) -> None:
        inner, consts = open_jaxpr(jaxpr)
        self._known: dict[Var, Integers] = {
            var: constant(np.asarray(value))
            for var, value in zip(inner.constvars, consts, strict=True)
            if holds_integers(var.aval)
        }
        self._known.update(inputs)
        for eqn in inner.eqns:
            self._run(eqn)

    def integers(self, atom: Atom) -> Integers | None:
        """The known facts of a variable or literal; None where it holds no integers."""
        if not holds_integers(atom.aval):
            return None
        if is_literal(atom):
            return constant(np.asarray(atom.val))
        if atom not in self._known:
            self._known[atom] = unknown(atom.aval)
        return self._known[atom]

    def _run(self, eqn: Equation) -> None:
        places = [index for index, var in enumerate(eqn.outvars) if holds_integers(var.aval)]
        if not places:
            return
        operands = [self.integers(atom) for atom in eqn.invars]
        called = called_jaxpr(eqn)
        if called is not None:
            found = _of_call(called, operands[len(operands) - len(open_jaxpr(called)[0].invars) :])
            self._known.update({eqn.outvars[index]: x for index in places if (x := found[index]) is not None})
            return
        avals = [atom.aval for atom in eqn.invars], [var.aval for var in eqn.outvars]
        for index in places:
            definition = Definition(eqn.primitive.name, eqn.params, (), *avals, index)
            self._known[eqn.outvars[index]] = result(definition, operands)


def _of_call(jaxpr: Jaxpr, operands: Sequence[Integers | None]) -> list[Integers | None]:
    inner: jax.extend.core.Jaxpr = open_jaxpr(jaxpr)[0]
    inputs = {var: x for var, x in zip(inner.invars, operands, strict=True) if x is not None}
    found = IntegersOfJaxpr(jaxpr, inputs)
    return [found.integers(atom) for atom in inner.outvars]
