"""`sources`: the values that calls of jitted functions hand through as results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Atom, Equation, Jaxpr
from jax2onnx_core.jaxprs import open_jaxpr

__all__ = ["sources"]


def sources(jaxpr: Jaxpr, results: Sequence[Atom]) -> list[Atom]:
    """For each of some values of an open jaxpr, the operand that calls hand through as it; itself where they do not."""
    made = {id(v): (eqn, i) for eqn in jaxpr.eqns if _compat.is_jitted(eqn) for i, v in enumerate(eqn.outvars)}
    return [_source(v, made) for v in results]


def _source(result: Atom, made: Mapping[int, tuple[Equation, int]]) -> Atom:
    while (place := made.get(id(result))) is not None:
        eqn, index = place
        body, _ = open_jaxpr(eqn.params["jaxpr"])
        (inside,) = sources(body, [body.outvars[index]])
        operand = next((i for i, v in enumerate(body.invars) if v is inside), None)
        if operand is None:
            break
        result = eqn.invars[operand]
    return result
