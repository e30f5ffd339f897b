"""Elementary functions that ONNX lacks, or that the target cannot compute in double precision.

Each is written with the functions that every target has (exp, log, sqrt, sin, cos, tanh) in such a way that
the relative error stays at a few units in the last place over the whole range, tiny and huge
arguments, signed zeros, infinities and NaN included.

Sources: W. Kahan, "Branch cuts for complex elementary functions" (1987) for expm1 and log1p;
S. L. Moshier, "Methods and Programs for Mathematical Functions" (Cephes) for the arctangent;
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" for the reduction by pi/2.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Rules, Value

from jax2onnx_lax._numerics import computed_in, copy_sign, horner, sign_bit

__all__ = ["rules"]

rules = Rules()

_LN2 = 0.6931471805599453094172321214581765680755
_PI = 3.1415926535897932384626433832795028841972

# Cephes, atan: atan(x) = x + x^3 P(x^2)/Q(x^2) for |x| <= 0.66, highest degree first.
_ATAN_P = (-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
           -1.228866684490136173410e2, -6.485021904942025371773e1)  # fmt: skip
_ATAN_Q = (1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
           4.853903996359136964868e2, 1.945506571482613964425e2)  # fmt: skip
_TAN_3PI_8 = 2.41421356237309504880
# pi/2 in three parts of 33 bits, so that k * part is exact for |k| < 2**20 (Cody and Waite).
_PI_2_PARTS = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
_TAN_REDUCED_LIMIT = 1.0e6


@rules.decompose("expm1")
@computed_in(np.float32)
def expm1(x: Array, *, accuracy: object = None) -> Array:
    """exp(x) - 1 = 2 t / (1 - t) with t = tanh(x/2), which does not cancel near 0."""
    t = lax.tanh(0.5 * x)
    return jnp.where(jnp.abs(x) >= 0.5, lax.exp(x) - 1, 2 * t / (1 - t))


@rules.decompose("log1p")
@computed_in(np.float32)
def log1p(x: Array, *, accuracy: object = None) -> Array:
    """log(u) x / (u - 1) with u = 1 + x rounded: the error of u cancels (Kahan)."""
    u = 1 + x
    logarithm = lax.log(u)
    # As in `numerics.copy_sign`, a choice that may be -0.0 comes second.
    rounded = u - 1
    near_zero = jnp.where(jnp.abs(rounded) > 0, logarithm * x / rounded, x)
    return jnp.where(jnp.abs(x) >= 0.5, logarithm, near_zero)


@rules.decompose("log2")
@computed_in(np.float32)
def log2(x: Array, *, accuracy: object = None) -> Array:
    """log(x) / log(2)."""
    return lax.log(x) * (1 / _LN2)


@rules.decompose("cbrt")
@computed_in(np.float32)
def cbrt(x: Array, *, accuracy: object = None) -> Array:
    """exp(log|x| / 3) with the sign of x; float64 is refined by one step of Newton's method."""
    if x.dtype != np.float64:
        wide = jnp.abs(x).astype(np.float64)
        return copy_sign(lax.exp(lax.log(wide) / 3).astype(x.dtype), x)
    return _refined_cbrt(x)


def _refined_cbrt(x: Array) -> Array:
    a = jnp.abs(x)
    y = lax.exp(lax.log(a) / 3)
    y = y - (y - a / (y * y)) / 3
    return copy_sign(jnp.where(a == np.inf, a, y), x)


@rules.lower("cbrt")
def cbrt_in_single(ctx: Context, x: Value, *, accuracy: object = None) -> Value:
    """The cube root for targets without double precision: narrower types too are refined by a step of Newton's method."""
    if ctx.supports("Exp", np.float64):
        ctx.pass_on(f"{ctx.target.name} has double precision")
    return ctx.cast(ctx.jax(_refined_cbrt, ctx.cast(x, np.float32)), ctx.dtype(x))


@rules.decompose("tan")
@computed_in(np.float32)
def tan(x: Array, *, accuracy: object = None) -> Array:
    """sin/cos after reduction to |r| <= pi/4, where both are accurate in relative terms."""
    if x.dtype != np.float64:
        return tan(x.astype(np.float64)).astype(x.dtype)
    k = lax.round(x * (2 / _PI), lax.RoundingMethod.TO_NEAREST_EVEN)
    k = jnp.where(jnp.abs(x) < _TAN_REDUCED_LIMIT, k, 0.0)
    reduced = x
    for part in _PI_2_PARTS:
        reduced = reduced - k * part
    sine, cosine = lax.sin(reduced), lax.cos(reduced)
    odd = lax.rem(k, jnp.full_like(k, 2)) != 0
    quotient = jnp.where(odd, -cosine, sine) / jnp.where(odd, sine, cosine)
    return jnp.where(x != 0, quotient, x)


@rules.decompose("atan")
@computed_in(np.float32)
def atan(x: Array) -> Array:
    """The arctangent, reduced to |x| <= 0.66 by arctan x = pi/2 - arctan 1/x = pi/4 + arctan (x - 1)/(x + 1)."""
    a = jnp.abs(x)
    large, middle = a > _TAN_3PI_8, a > 0.66
    numerator = jnp.where(large, -1.0, jnp.where(middle, a - 1, a))
    denominator = jnp.where(large, a, jnp.where(middle, a + 1, 1.0))
    offset = jnp.where(large, _PI / 2, jnp.where(middle, _PI / 4, 0.0)).astype(x.dtype)
    r = numerator / denominator
    z = r * r
    return copy_sign(offset + (r + r * (z * (horner(z, _ATAN_P) / horner(z, _ATAN_Q)))), x)


@rules.decompose("asin")
@computed_in(np.float32)
def asin(x: Array) -> Array:
    """atan(x / sqrt((1-x)(1+x))); NaN outside of [-1, 1] comes from the root."""
    return lax.atan(x / lax.sqrt((1 - x) * (1 + x)))


@rules.decompose("acos")
@computed_in(np.float32)
def acos(x: Array) -> Array:
    """2 atan(sqrt((1-x)/(1+x))), accurate near 1 where acos is small."""
    return 2 * lax.atan(lax.sqrt((1 - x) / (1 + x)))


@rules.decompose("atan2")
@computed_in(np.float32)
def atan2(y: Array, x: Array) -> Array:
    """The angle of (x, y), with C's conventions for signed zeros and infinities."""
    a, b = jnp.abs(y), jnp.abs(x)
    ratio = jnp.where((a == b) & ((a == 0) | (a == np.inf)), jnp.where(a == 0, a, jnp.ones_like(a)), a / b)
    angle = lax.atan(ratio)
    angle = jnp.where(sign_bit(x), _PI - angle, angle)
    one = angle.dtype.type(1)
    return angle * jnp.where(sign_bit(y), -one, one)


@rules.decompose("sinh")
@computed_in(np.float32)
def sinh(x: Array) -> Array:
    """2t/(1-t^2) with t = tanh(x/2) near 0, else from exp(x/2) twice, which does not overflow early."""
    t = lax.tanh(0.5 * x)
    h = lax.exp(0.5 * x)
    return jnp.where(jnp.abs(x) >= 1, (0.5 * h) * h - (0.5 / h) / h, 2 * t / ((1 - t) * (1 + t)))


@rules.decompose("cosh")
@computed_in(np.float32)
def cosh(x: Array) -> Array:
    """(exp(x) + exp(-x)) / 2 from exp(|x|/2) twice, which does not overflow early."""
    h = lax.exp(0.5 * jnp.abs(x))
    return (0.5 * h) * h + (0.5 / h) / h


@rules.decompose("asinh")
@computed_in(np.float32)
def asinh(x: Array) -> Array:
    """log1p(a + a^2/(1 + sqrt(a^2 + 1))) for a = |x|, log(a) + log(2) where a^2 is much above 1."""
    a = jnp.abs(x)
    large = a > _square_limit(x)
    b = jnp.where(large, 1.0, a)
    moderate = lax.log1p(b + b * b / (1 + lax.sqrt(b * b + 1)))
    return copy_sign(jnp.where(large, lax.log(a) + _LN2, moderate), x)


@rules.decompose("acosh")
@computed_in(np.float32)
def acosh(x: Array) -> Array:
    """log1p(t + sqrt(2t + t^2)) for t = x - 1; NaN below 1."""
    large = x > _square_limit(x)
    t = jnp.where(large, 1.0, x - 1)
    moderate = lax.log1p(t + lax.sqrt(2 * t + t * t))
    return jnp.where(x < 1, np.nan, jnp.where(large, lax.log(x) + _LN2, moderate))


@rules.decompose("atanh")
@computed_in(np.float32)
def atanh(x: Array) -> Array:
    """log1p(2a/(1-a)) / 2 for a = |x|."""
    a = jnp.abs(x)
    return copy_sign(0.5 * lax.log1p(2 * a / (1 - a)), x)


def _square_limit(x: Array) -> float:
    """The number above which 1 is lost beside x^2 in the dtype of `x`."""
    return 2.0**28 if x.dtype == np.float64 else 2.0**13
