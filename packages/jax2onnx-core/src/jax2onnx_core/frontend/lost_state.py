"""State that a traced call changes and a model cannot keep: running statistics, counters, random keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jax2onnx_core import _compat
from jax2onnx_core.frontend.composite import is_composite
from jax2onnx_core.jax_types import Jaxpr, Var
from jax2onnx_core.jaxprs import is_extended_dtype, is_literal, open_jaxpr

__all__ = ["constant_keys", "lost_state"]

_WHAT = "Every call of the model begins with the state at the export, and draws the same random numbers:"
_ADVICE = (
    "For inference, put the model into evaluation mode before the export: model.eval(), or what its framework has for it. "
    "State that is to be kept, and keys, can be inputs of the function, and new state a result."
)
_MOST_LINES = 8


def lost_state(written: Iterable[str], keys: Iterable[str], owners: Mapping[str, str]) -> str | None:
    """A text about state at the paths `written` and random keys at the paths `keys`; None if there are none."""
    facts: dict[str, dict[str, list[str]]] = {}
    for what, paths in (("changes", written), ("draws random numbers from the constant key", keys)):
        for path in paths:
            facts.setdefault(owners.get(path, "the function"), {}).setdefault(what, []).append(path or "without a name")
    if not facts:
        return None
    lines = [f"  {owner} {_listed(found)}" for owner, found in facts.items()]
    more = [f"  … and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return "\n".join([_WHAT, *lines[:_MOST_LINES], *more, _ADVICE])


def _listed(facts: Mapping[str, Sequence[str]]) -> str:
    return " and ".join(f"{what} {', '.join(paths)}" for what, paths in facts.items())


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
