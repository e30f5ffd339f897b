"""The structure of a jaxpr as a hashable value: equal for jaxprs that mean the same computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jax2onnx_core import _compat
from jax2onnx_core.frontend.composite import Static

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
            _params(eqn.params),
        )
        for eqn in inner.eqns
    )
    return inputs, equations, tuple(atom(v) for v in inner.outvars), tuple(id(c) for c in consts)


def _value(value: Any) -> Any:
    if _compat.is_jaxpr(value):
        return structure_of(value)
    if isinstance(value, Static):
        return _value(value.values)
    if isinstance(value, dict):
        return tuple((key, _value(value[key])) for key in sorted(value, key=str))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_value, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}{value.shape}", value.tobytes()
    return repr(value)


def _params(params: Mapping[str, Any]) -> Any:
    """Parameters; functions beside a jaxpr say how a call transforms, not what it computes."""
    calls = any(map(_compat.is_jaxpr, params.values()))
    return tuple((key, _value(params[key])) for key in sorted(params) if not (calls and callable(params[key])))
