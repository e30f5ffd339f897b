"""Numerical building blocks of decompositions: signs of zeros, polynomials, working precision."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.dtypes import is_float

__all__ = ["computed_in", "copy_sign", "horner", "sign_bit"]

JaxFn = Callable[..., Array]


def computed_in(dtype: DtypeLike) -> Callable[[JaxFn], JaxFn]:
    """Decorator: operands of narrower float dtypes are computed in `dtype`, and the result is rounded once to theirs.

    Operands of other dtypes (integers, complex numbers, wider floats) are computed as they are.
    """
    wide = np.dtype(dtype)

    def decorate(fn: JaxFn) -> JaxFn:
        @functools.wraps(fn)
        def wrapped(*operands: Array, **params: object) -> Array:
            own = operands[0].dtype
            if not is_float(own) or own.itemsize >= wide.itemsize:
                return fn(*operands, **params)
            return fn(*(lax.convert_element_type(x, wide) for x in operands), **params).astype(own)

        return wrapped

    return decorate


def horner(x: Array, coefficients: Sequence[float | Array]) -> Array:
    """The polynomial in `x` by Horner's scheme; coefficients from the highest degree down."""
    first, *rest = coefficients
    if not rest:
        return jnp.full_like(x, first)
    result = jnp.asarray(first, x.dtype)  # a scalar: a whole array would be a constant of the model
    for coefficient in rest:
        result = result * x + coefficient
    return result


def sign_bit(x: Array) -> Array:
    """bool: whether the sign bit is set; true for -0.0, false for every NaN."""
    return jnp.where(x == 0, 1 / x, x) < 0


def copy_sign(magnitude: Array, x: Array) -> Array:
    """`magnitude` (not negative) with the sign of `x`; where `x` is zero, `x` itself.

    A choice that may be -0.0 comes second: a Where need not keep the sign of a zero in its first.
    """
    return jnp.where(jnp.abs(x) > 0, jnp.where(x < 0, -magnitude, magnitude), x)
