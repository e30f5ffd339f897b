"""Fingerprints: hashable values that are equal for equal parameters, and for jaxprs that compute the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import numpy as np
from jax.extend import linear_util

from jax2onnx_core.jax_types import Jaxpr, Params
from jax2onnx_core.jaxprs import StaticParams, is_jaxpr, is_literal, open_jaxpr

__all__ = ["jaxpr_fingerprint", "params_fingerprint"]


def jaxpr_fingerprint(jaxpr: Jaxpr) -> Hashable:
    """Primitives, parameters, avals and wiring; constants by identity, names of variables ignored."""
    inner, consts = open_jaxpr(jaxpr)
    numbers: dict[Any, int] = {}

    def atom(v: Any) -> Hashable:
        if is_literal(v):
            return ("literal", _fingerprint(v.val), str(v.aval))
        return numbers.setdefault(v, len(numbers))

    inputs = tuple((atom(v), str(v.aval)) for v in (*inner.constvars, *inner.invars))
    equations = tuple(
        (
            eqn.primitive.name,
            tuple(atom(v) for v in eqn.invars),
            tuple((atom(v), str(v.aval)) for v in eqn.outvars),
            _equation_params(eqn.params),
        )
        for eqn in inner.eqns
    )
    return inputs, equations, tuple(atom(v) for v in inner.outvars), tuple(id(c) for c in consts)


def params_fingerprint(params: Params) -> Hashable:
    """Parameters by name: numbers by type and value (so that -0.0 is not 0.0), arrays by their bytes."""
    return tuple((key, _fingerprint(params[key])) for key in sorted(params))


def _fingerprint(value: Any) -> Hashable:
    if is_jaxpr(value):
        return jaxpr_fingerprint(value)
    if isinstance(value, StaticParams):
        return _fingerprint(value.values)
    if isinstance(value, dict):
        return tuple((key, _fingerprint(value[key])) for key in sorted(value, key=str))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_fingerprint, value))
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return str(array.dtype), array.shape, array.tobytes()
    if isinstance(value, (bool, int, float, complex)):
        return type(value).__name__, repr(value)
    return (type(value), value) if isinstance(value, Hashable) else (type(value), repr(value))


def _equation_params(params: Params) -> Hashable:
    """Parameters; functions beside a jaxpr say how a call transforms, not what it computes."""
    calls = any(map(is_jaxpr, params.values()))
    kept = {key: value for key, value in params.items() if not (calls and _is_function(value))}
    return params_fingerprint(kept)


def _is_function(value: object) -> bool:
    return callable(value) or isinstance(value, linear_util.WrappedFun)
