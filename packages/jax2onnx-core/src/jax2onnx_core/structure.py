"""The structure of a jaxpr as a hashable value: equal for jaxprs that mean the same computation."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax2onnx_core import _compat
from jax2onnx_core.composite import Static

__all__ = ["structure_of"]


def structure_of(jaxpr: Any) -> Any:
    """Primitives, parameters, avals and wiring; constants by identity, names of variables ignored."""
    inner, consts = _compat.open_jaxpr(jaxpr)
    numbers: dict[Any, int] = {}

    def atom(v: Any) -> Any:
        if isinstance(v, _compat.Literal):
            return ("literal", _value(v.val), str(v.aval))
        return numbers.setdefault(v, len(numbers))

    inputs = tuple((atom(v), str(v.aval)) for v in (*inner.constvars, *inner.invars))
    equations = tuple(
        (
            eqn.primitive.name,
            tuple(atom(v) for v in eqn.invars),
            tuple((atom(v), str(v.aval)) for v in eqn.outvars),
            tuple(sorted((key, _value(value)) for key, value in eqn.params.items())),
        )
        for eqn in inner.eqns
    )
    return inputs, equations, tuple(atom(v) for v in inner.outvars), tuple(id(c) for c in consts)


def _value(value: Any) -> Any:
    if _compat.is_jaxpr(value):
        return repr(structure_of(value))
    if isinstance(value, Static):
        return _value(value.values)
    if isinstance(value, dict):
        return repr([(key, _value(value[key])) for key in sorted(value, key=str)])
    if isinstance(value, (list, tuple)):
        return repr([_value(v) for v in value])
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    return repr(value)
