"""Random keys and draws among the equations of a jaxpr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jax2onnx_core.jax_types import Atom, Equation, Jaxpr
from jax2onnx_core.jaxprs import is_extended_dtype, is_jaxpr, open_jaxpr

from jax2onnx_lax._compat import ShapedArray, is_threefry

__all__ = ["draws_otherwise_if_batched", "has_keys"]


def has_keys(jaxpr: Jaxpr) -> bool:
    """Whether typed keys are among the values of a jaxpr or of those in it; they are no numbers."""
    inner = open_jaxpr(jaxpr)[0]
    return bool(_keys(inner.invars)) or any(map(_has_keys, inner.eqns))


def _has_keys(eqn: Equation) -> bool:
    return bool(_keys([*eqn.invars, *eqn.outvars])) or any(map(has_keys, _bodies(eqn)))


def draws_otherwise_if_batched(eqn: Equation) -> bool:
    """Whether an equation, or one in it, draws by another generator than threefry, of which `vmap` draws other bits."""
    if eqn.primitive.name == "rng_bit_generator":
        return True
    if not all(is_threefry(v.aval.dtype) for v in _keys([*eqn.invars, *eqn.outvars])):
        return True
    return any(draws_otherwise_if_batched(one) for body in _bodies(eqn) for one in open_jaxpr(body)[0].eqns)


def _keys(atoms: Sequence[Atom]) -> list[Atom]:
    return [v for v in atoms if isinstance(v.aval, ShapedArray) and is_extended_dtype(v.aval.dtype)]


def _bodies(eqn: Equation) -> Iterator[Jaxpr]:
    for param in eqn.params.values():
        yield from (one for one in (param if isinstance(param, tuple) else (param,)) if is_jaxpr(one))
