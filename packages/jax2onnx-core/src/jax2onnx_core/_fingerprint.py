"""Fingerprints of parameters and jaxprs: hashable values that are equal for jaxprs that compute the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax
import numpy as np
from jax.extend import linear_util
from jax2onnx_graph.fingerprints import ByIdentity, array_fingerprint, fingerprint

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Equation, Jaxpr, Params
from jax2onnx_core.jaxprs import StaticParams, is_extended_dtype, is_jaxpr, is_literal, open_jaxpr

__all__ = ["jaxpr_fingerprint", "params_fingerprint"]


def jaxpr_fingerprint(jaxpr: Jaxpr) -> Hashable:
    """Primitives, parameters, avals and wiring; constants by identity, names of variables ignored."""
    inner, consts = open_jaxpr(jaxpr)
    numbers: dict[Any, int] = {}

    def atom(v: Any) -> Hashable:
        if is_literal(v):
            return ("literal", fingerprint(v.val, _of_jax), str(v.aval))
        return numbers.setdefault(v, len(numbers))

    inputs = tuple((atom(v), str(v.aval)) for v in (*inner.constvars, *inner.invars))
    equations = tuple(
        (
            eqn.primitive,
            tuple(atom(v) for v in eqn.invars),
            tuple((atom(v), str(v.aval)) for v in eqn.outvars),
            params_fingerprint(_meaning(eqn)),
            eqn.ctx.threefry_partitionable,
        )
        for eqn in inner.eqns
    )
    return inputs, equations, tuple(atom(v) for v in inner.outvars), tuple(map(ByIdentity, consts))


def params_fingerprint(params: Params) -> Hashable:
    """Parameters by name."""
    return fingerprint(dict(sorted(params.items())), _of_jax)


def _of_jax(value: object) -> Hashable | None:
    if is_jaxpr(value):
        return jaxpr_fingerprint(value)
    if isinstance(value, StaticParams):
        return params_fingerprint(value.values)
    if isinstance(value, jax.Array):
        words = jax.random.key_data(value) if is_extended_dtype(value.dtype) else value
        return str(value.dtype), array_fingerprint(np.asarray(words))
    return None


def _meaning(eqn: Equation) -> Params:
    """The parameters that say what an equation computes: functions beside a jaxpr say how JAX transforms a call."""
    if not any(map(is_jaxpr, eqn.params.values())) or _compat.definition(eqn.primitive) is not None:
        return eqn.params
    return {key: value for key, value in eqn.params.items() if not _is_function(value)}


def _is_function(value: object) -> bool:
    return callable(value) or isinstance(value, linear_util.WrappedFun)
