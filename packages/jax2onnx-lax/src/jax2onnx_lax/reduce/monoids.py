"""Computations that `lax.reduce`, `lax.reduce_window` and scans combine values with.

JAX gives them as jaxprs of scalars. Recognised ones get their own primitives; any other is called
on whole arrays, element by element.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax2onnx_lax._compat import flat_function, open_jaxpr

__all__ = ["MONOIDS", "Monoid", "combiner", "from_identity", "highest", "lowest", "recognise"]

Array = Any  # a JAX array, traced or not
Combine = Callable[..., Sequence[Array]]


@dataclasses.dataclass(frozen=True)
class Monoid:
    """An associative, commutative operation of two arrays and its identity for each dtype."""

    combine: Callable[[Array, Array], Array]
    identity: Callable[[Any], Any]
    reduce: Callable[..., Array]
    idempotent: bool = False


def lowest(dtype: Any) -> Any:
    """The identity of max: -inf, False or the least integer."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.bool_(False)
    if jnp.issubdtype(dtype, jnp.integer):
        return dtype.type(jnp.iinfo(dtype).min)
    return dtype.type(-np.inf)


def highest(dtype: Any) -> Any:
    """The identity of min: inf, True or the greatest integer."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.bool_(True)
    if jnp.issubdtype(dtype, jnp.integer):
        return dtype.type(jnp.iinfo(dtype).max)
    return dtype.type(np.inf)


def _zero(dtype: Any) -> Any:
    return np.dtype(dtype).type(0)


def _one(dtype: Any) -> Any:
    return np.dtype(dtype).type(1)


def _ones(dtype: Any) -> Any:
    """All bits set: the identity of `and`."""
    dtype = np.dtype(dtype)
    return np.bool_(True) if dtype == np.bool_ else np.array(-1).astype(dtype)[()]


MONOIDS = {
    "add": Monoid(lax.add, _zero, lax.reduce_sum),
    "mul": Monoid(lax.mul, _one, lax.reduce_prod),
    "max": Monoid(lax.max, lowest, lax.reduce_max, idempotent=True),
    "min": Monoid(lax.min, highest, lax.reduce_min, idempotent=True),
    "and": Monoid(lax.bitwise_and, _ones, lax.reduce_and, idempotent=True),
    "or": Monoid(lax.bitwise_or, _zero, lax.reduce_or, idempotent=True),
    "xor": Monoid(lax.bitwise_xor, _zero, lax.reduce_xor),
}  # fmt: skip


def recognise(jaxpr: Any) -> Monoid | None:
    """The monoid that a jaxpr of two scalars computes, if it is one of `MONOIDS` and nothing else."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2 or len(jaxpr.outvars) != 1:
        return None
    equation = jaxpr.eqns[0]
    if equation.primitive.name not in MONOIDS or jaxpr.outvars[0] is not equation.outvars[0]:
        return None
    operands, parameters = list(equation.invars), list(jaxpr.invars)
    if operands not in (parameters, parameters[::-1]) or parameters[0] is parameters[1]:
        return None
    return MONOIDS[equation.primitive.name]


def combiner(jaxpr: Any, consts: Sequence[Any]) -> Combine:
    """The jaxpr of scalars as a function of arrays of one shape, applied element by element."""
    scalar = flat_function(jaxpr, consts)

    def combine(*operands: Array) -> Sequence[Array]:
        function = scalar
        for _ in range(operands[0].ndim):
            function = jax.vmap(function)
        return function(*operands)

    return combine


def from_identity(ctx: Any, jaxpr: Any, consts: Sequence[Any], initial: Any) -> Monoid:
    """The monoid that a jaxpr computes; declines if it is none, or does not start from its identity."""
    monoid, known = recognise(open_jaxpr(jaxpr, consts)[0]), ctx.known(initial)
    if monoid is None or known is None or not np.array_equal(known, monoid.identity(known.dtype)):
        ctx.decline("not a known operation that starts from its identity")
    assert monoid is not None  # declining raised
    return monoid
