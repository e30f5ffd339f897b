"""Computations that `lax.reduce`, `lax.reduce_window` and scans combine values with.

JAX gives them as jaxprs of scalars. Recognised ones get their own primitives; any other is applied to whole arrays,
element by element.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Jaxpr, Value
from jax2onnx_core.jaxprs import eval_jaxpr, open_jaxpr
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.dtypes import Dtype, is_bool, is_integer

__all__ = ["MONOIDS", "Combine", "Monoid", "Scalar", "combiner", "from_identity", "highest", "lowest", "recognise"]

#: `combine(*left, *right)`: combines two groups of arrays of one shape, element by element.
Combine = Callable[..., Sequence[Array]]
Scalar = np.generic | Array


@dataclasses.dataclass(frozen=True)
class Monoid:
    """An associative, commutative operation on arrays.

    Attributes:
      combine: the operation on two arrays of one shape, element by element.
      identity: its neutral element in a dtype.
      reduce: the reduction of an array by it: `reduce(x, axes)`.
      idempotent: whether combining a value with itself gives that value.
    """

    combine: Callable[[Array, Array], Array]
    identity: Callable[[DtypeLike], np.generic]
    reduce: Callable[..., Array]
    idempotent: bool = False


def lowest(dtype: DtypeLike) -> np.generic:
    """The identity of max: -inf, False or, where there is no infinity, the least number."""
    return _extreme(np.dtype(dtype), -1)


def highest(dtype: DtypeLike) -> np.generic:
    """The identity of min: inf, True or, where there is no infinity, the greatest number."""
    return _extreme(np.dtype(dtype), 1)


def _extreme(dtype: Dtype, sign: int) -> np.generic:
    if is_bool(dtype):
        return np.bool_(sign > 0)
    infinity = dtype.type(0 if is_integer(dtype) else sign * np.inf)
    if np.isinf(infinity):
        return infinity
    limits = (jnp.iinfo if is_integer(dtype) else jnp.finfo)(dtype)
    return dtype.type(limits.max if sign > 0 else limits.min)


def _zero(dtype: DtypeLike) -> np.generic:
    return np.dtype(dtype).type(0)


def _one(dtype: DtypeLike) -> np.generic:
    return np.dtype(dtype).type(1)


def _all_bits(dtype: DtypeLike) -> np.generic:
    """All bits set: the identity of `and`."""
    return np.bool_(True) if is_bool(dtype) else np.dtype(dtype).type(np.array(-1).astype(dtype))


#: By the names of the primitives that compute them.
MONOIDS = {
    "add": Monoid(lax.add, _zero, lax.reduce_sum),
    "mul": Monoid(lax.mul, _one, lax.reduce_prod),
    "max": Monoid(lax.max, lowest, lax.reduce_max, idempotent=True),
    "min": Monoid(lax.min, highest, lax.reduce_min, idempotent=True),
    "and": Monoid(lax.bitwise_and, _all_bits, lax.reduce_and, idempotent=True),
    "or": Monoid(lax.bitwise_or, _zero, lax.reduce_or, idempotent=True),
    "xor": Monoid(lax.bitwise_xor, _zero, lax.reduce_xor),
}  # fmt: skip


def recognise(jaxpr: Jaxpr) -> Monoid | None:
    """The monoid that a jaxpr of two scalars computes, if it is one of `MONOIDS` and nothing else."""
    inner = open_jaxpr(jaxpr)[0]
    if len(inner.eqns) != 1 or len(inner.invars) != 2 or len(inner.outvars) != 1:
        return None
    equation = inner.eqns[0]
    if equation.primitive.name not in MONOIDS or inner.outvars[0] is not equation.outvars[0]:
        return None
    operands, parameters = list(equation.invars), list(inner.invars)
    if operands not in (parameters, parameters[::-1]) or parameters[0] is parameters[1]:
        return None
    return MONOIDS[equation.primitive.name]


def combiner(jaxpr: Jaxpr, consts: Sequence[object] = ()) -> Combine:
    """The jaxpr of scalars as a function of arrays of one shape, applied element by element."""

    def of_scalars(*operands: Array) -> Sequence[Array]:
        return eval_jaxpr(jaxpr, *operands, consts=consts)

    def combine(*operands: Array) -> Sequence[Array]:
        function: Combine = of_scalars
        for _ in range(operands[0].ndim):
            function = jax.vmap(function)
        return function(*operands)

    return combine


def from_identity(ctx: Context, jaxpr: Jaxpr, initial: Value) -> Monoid:
    """The monoid that a jaxpr computes.

    Args:
      ctx: the context of the rule. It declines if there is no such monoid.
      jaxpr: a function of two scalars.
      initial: the initial value of the reduction, a scalar, which must be the identity.
    """
    monoid, known = recognise(jaxpr), ctx.known(initial)
    if monoid is None or known is None or not np.array_equal(known, monoid.identity(known.dtype)):
        ctx.decline("not a known operation that starts from its identity")
    return monoid
