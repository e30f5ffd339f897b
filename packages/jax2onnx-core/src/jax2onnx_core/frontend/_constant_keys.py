"""Random keys that a model cannot do without, and that are the same in each of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Atom, Jaxpr, Var
from jax2onnx_core.jaxprs import is_extended_dtype, is_jaxpr, is_literal, open_jaxpr

__all__ = ["constant_keys"]


def constant_keys(jaxpr: Jaxpr) -> Iterator[object]:
    """The closed-over arrays that are random keys, or become some, and that the results depend on."""
    inner, consts = open_jaxpr(jaxpr)
    variables = (*inner.constvars, *(v for eqn in inner.eqns for v in eqn.outvars))
    if not any(map(_is_key, variables)):  # as in nearly all models; what is used takes long to find
        return
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
        params = [p if isinstance(p, tuple) else (p,) for p in eqn.params.values()]
        bodies = [_compat.without_dead_equations(body) for p in params for body in p if is_jaxpr(body)]
        if len({len(open_jaxpr(body)[0].invars) for body in bodies}) == 1:  # a composite, a scan, branches
            meant = [pair for body in bodies for pair in _parameters(eqn.invars, body)]
            operands = [v for v, is_read in meant if is_read and not is_literal(v)]
        used.update(operands)
        if any(map(_is_key, eqn.outvars)) and not any(map(_is_key, operands)):
            into_keys.update(operands)
    return used, into_keys


def _parameters(operands: Sequence[Atom], body: Jaxpr) -> Iterator[tuple[Atom, bool]]:
    """Each operand, and whether the body, whose parameters are the last of them, reads it; the others are read."""
    invars, inside = open_jaxpr(body)[0].invars, _used(body)[0]
    yield from ((v, True) for v in operands[: len(operands) - len(invars)])
    yield from zip(operands[len(operands) - len(invars) :], (v in inside for v in invars), strict=True)


def _is_key(var: Var) -> bool:
    """Whether a variable holds random keys: an array of them, not a token, which has no dtype."""
    return isinstance(var.aval, _compat.ShapedArray) and is_extended_dtype(var.aval.dtype)
