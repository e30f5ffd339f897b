"""Random keys that a model cannot do without, and that are the same in each of its calls."""

from __future__ import annotations

from collections.abc import Iterator

from jax2onnx_core import _compat
from jax2onnx_core.frontend.composite import is_composite
from jax2onnx_core.jax_types import Jaxpr, Var
from jax2onnx_core.jaxprs import is_extended_dtype, is_literal, open_jaxpr

__all__ = ["constant_keys"]


def constant_keys(jaxpr: Jaxpr) -> Iterator[object]:
    """The closed-over arrays that are random keys, or become some, and that the results depend on."""
    inner, consts = open_jaxpr(jaxpr)
    used, into_keys = _used(jaxpr)
    for var, const in zip(inner.constvars, consts, strict=True):
        if var in into_keys or (var in used and _is_key(var)):
            yield const


def _used(jaxpr: Jaxpr) -> tuple[set[Var], set[Var]]:
    """The variables of a jaxpr without dead equations that are used, and those that keys are made from."""
    inner, _ = open_jaxpr(jaxpr)
    used = {v for v in inner.outvars if not is_literal(v)}
    into_keys: set[Var] = set()
    for eqn in inner.eqns:
        operands = [v for v in eqn.invars if not is_literal(v)]
        if is_composite(eqn.primitive):
            body = _compat.without_dead_equations(eqn.params["jaxpr"])
            inside, _ = _used(body)
            meant = zip(eqn.invars[eqn.params["count"] :], open_jaxpr(body)[0].invars, strict=True)
            operands = [*eqn.invars[: eqn.params["count"]], *(v for v, parameter in meant if parameter in inside)]
        used.update(operands)
        if any(map(_is_key, eqn.outvars)) and not any(map(_is_key, operands)):
            into_keys.update(operands)
    return used, into_keys


def _is_key(var: Var) -> bool:
    """Whether a variable holds random keys: an array of them, not a token, which has no dtype."""
    return isinstance(var.aval, _compat.ShapedArray) and is_extended_dtype(var.aval.dtype)
