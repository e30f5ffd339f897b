"""The gamma function's family: lgamma, digamma, zeta, polygamma, the incomplete gamma and beta functions.

Single precision is computed in double where the target has it, which costs little and is right to the last place. The
incomplete functions are JAX's own iterations.

Sources: C. Lanczos, "A precision approximation of the gamma function" (1964), with the coefficients of
P. Godfrey for g = 7, n = 9; NIST Digital Library of Mathematical Functions, 5.5.3, 5.5.4, 5.11.2,
25.11.5 (Euler-Maclaurin) and 25.11.12.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Rules, Value

from jax2onnx_lax import _compat
from jax2onnx_lax._numerics import computed_in

__all__ = ["rules"]

rules = Rules()

_LANCZOS_G = 7.0
_LANCZOS = (0.99999999999980993227684700473478, 676.520368121885098567009190444019,
            -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
            -176.61502916214059906584551354, 12.507343278686904814458936853,
            -0.13857109526572011689554707, 9.984369578019570859563e-6, 1.50563273514931155834e-7)  # fmt: skip
# B_2, B_4, ..., B_24.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
              -174611 / 330, 854513 / 138, -236364091 / 2730)  # fmt: skip
_DIGAMMA_SHIFT = 8
_ZETA_TERMS = 10


def _computed_in_double(name: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Register the decomposition of a primitive, computed in float64, or, as JAX does, in float32 where the target has no other."""

    def register(fn: Callable[..., Array]) -> Callable[..., Array]:
        @rules.lower(name)
        def in_single(ctx: Context, *operands: Value, **_: object) -> Value:
            if ctx.supports("Add", np.float64) or ctx.dtype(operands[0]) == np.float64:
                ctx.pass_on("single precision is computed in double")
            return ctx.jax(computed_in(np.float32)(fn), *operands)

        rules.decompose(name, computed_in(np.float64)(fn))
        return fn

    return register


@_computed_in_double("lgamma")
def lgamma(x: Array) -> Array:
    """log |gamma(x)|: Lanczos's series for x >= 1/2, reflection (DLMF 5.5.3) below; inf at the poles."""
    reflect = x < 0.5
    z = jnp.where(reflect, -x, x - 1)
    series = jnp.full_like(z, _LANCZOS[0])
    for i, coefficient in enumerate(_LANCZOS[1:], start=1):
        series = series + coefficient / (z + i)
    t = z + (_LANCZOS_G + 0.5)
    log_t = math.log(_LANCZOS_G + 0.5) + lax.log1p(z / (_LANCZOS_G + 0.5))
    value = (z + 0.5 - t / log_t) * log_t + (0.5 * math.log(2 * math.pi) + lax.log(series))
    distance = _distance_to_integer(x)
    reflected = math.log(math.pi) - lax.log(lax.sin(math.pi * distance)) - value
    value = jnp.where(reflect, jnp.where(distance == 0, np.inf, reflected), value)
    return jnp.where(jnp.abs(x) == np.inf, np.inf, value)


def _distance_to_integer(x: Array) -> Array:
    """|x - n| for the integer n nearest to x, exactly."""
    return jnp.abs(x - lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN))


@_computed_in_double("digamma")
def digamma(x: Array) -> Array:
    """The logarithmic derivative of gamma; NaN at the poles.

    Recurrence to x >= 8.5, then the asymptotic series (DLMF 5.11.2); reflection (DLMF 5.5.4) below 1/2.
    """
    reflect = x < 0.5
    y = jnp.where(reflect, 1 - x, x)
    recurrence = jnp.zeros_like(y)
    for k in range(_DIGAMMA_SHIFT):
        recurrence = recurrence + 1 / (y + k)
    z = y + _DIGAMMA_SHIFT
    w = 1 / (z * z)
    series = jnp.zeros_like(z)
    for k in range(8, 0, -1):
        series = w * (_BERNOULLI[k - 1] / (2 * k) + series)
    value = lax.log(z) - 0.5 / z - series - recurrence
    offset = x - lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    angle = math.pi * offset
    reflected = value - math.pi * lax.cos(angle) / lax.sin(angle)
    at_pole = jnp.where(x == 0, _compat.DIGAMMA_AT_ZERO, jnp.asarray(np.nan, x.dtype))
    return jnp.where(reflect, jnp.where(offset == 0, at_pole, reflected), value)


@_computed_in_double("zeta")
def zeta(x: Array, q: Array) -> Array:
    """Hurwitz's zeta function by Euler-Maclaurin summation (DLMF 25.11.5); domain and poles are JAX's."""
    total = lax.pow(q, -x)
    for k in range(1, _ZETA_TERMS):
        total = total + lax.pow(q + k, -x)
    a = q + _ZETA_TERMS
    power = lax.pow(a, -x)
    total = total + power * a / (x - 1) + 0.5 * power
    factor = power * x / a
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total = total + factor * (bernoulli / math.factorial(2 * j))
        factor = factor * ((x + (2 * j - 1)) / a) * ((x + 2 * j) / a)
    even = (x == lax.floor(x)) & (lax.floor(0.5 * x) == 0.5 * x)
    at_pole = jnp.where(even, np.inf, jnp.asarray(np.nan, x.dtype))
    total = jnp.where((x < 1) | ((q <= 0) & (x != lax.floor(x))), np.nan, total)
    total = jnp.where((q <= 0) & (q == lax.floor(q)), at_pole, total)
    total = jnp.where(x == 1, np.inf, total)
    return jnp.where(jnp.abs(x) == np.inf, np.nan, total)


@_computed_in_double("polygamma")
def polygamma(m: Array, x: Array) -> Array:
    """The m-th derivative of digamma: (-1)^(m+1) m! zeta(m+1, x) (DLMF 25.11.12); NaN where m is no natural number."""
    odd = lax.rem(m, jnp.full_like(m, 2)) == 1
    magnitude = lax.exp(lax.lgamma(m + 1)) * lax.zeta(m + 1, x)
    value = jnp.where(odd, magnitude, -magnitude)
    value = jnp.where(m == 0, lax.digamma(x), value)
    return jnp.where((m < 0) | (m != lax.floor(m)), np.nan, value)


rules.decompose("igamma", _compat.igamma)
rules.decompose("igammac", _compat.igammac)
rules.decompose("igamma_grad_a", _compat.igamma_grad_a)
rules.decompose("regularized_incomplete_beta", _compat.betainc)
