"""Inverse trigonometric and hyperbolic functions of complex numbers, on pairs of real arrays.

Source: T. E. Hull, T. F. Fairgrieve, P. T. P. Tang, "Implementing the complex arcsine and arccosine
functions using exception handling", ACM Transactions on Mathematical Software 23 (1997), with the
real parts taken from atan2 and the exceptional ranges by selection; W. Kahan, "Branch cuts for
complex elementary functions" (1987), for atanh.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Complex, Rules

from jax2onnx_lax.complex.arithmetic import hypot
from jax2onnx_lax.complex.elementary import log_abs, times_i, times_minus_i

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "rules"]

rules = Rules()


def _signed(magnitude: Array, x: Array) -> Array:
    """The magnitude with the sign of x, without sign for both zeros (as XLA)."""
    return jnp.where(x < 0, -magnitude, magnitude)


def _arcs(z: Complex) -> tuple[Array, Array]:
    """The two quantities of which Hull et al. make the arc sine and arc cosine of x + iy.

    Args:
      z: the number; x and y are the absolute values of its parts.

    Returns:
      The cathetus k with Re asin = atan2(x, k) and Re acos = atan2(k, x); the imaginary part
      log(a + sqrt(a² - 1)) with a = (|z + 1| + |z - 1|) / 2.
    """
    x, y = abs(z.real), abs(z.imag)
    finfo = jnp.finfo(x.dtype)
    large = lax.max(x, y) > math.sqrt(float(finfo.max)) / 8
    tiny = y < math.sqrt(float(finfo.tiny)) * 4
    inside = x < 1
    plus, minus = x + 1, x - 1
    r, s = hypot(plus, y), hypot(minus, y)
    y_square = y * y
    half_sum = 0.5 * (0.5 * (r + s) + x)
    r_plus, s_less, s_more = r + plus, s - minus, s + minus
    cathetus = jnp.where(
        inside,
        lax.sqrt(half_sum * (y_square / r_plus + s_less)),
        y * lax.sqrt(half_sum / r_plus + half_sum / s_more),
    )
    excess = 0.5 * (y_square / r_plus + jnp.where(inside, y_square / s_less, s_more))
    ordinary = lax.log1p(excess + lax.sqrt(excess * (excess + 2)))
    return (
        jnp.where(large, y, jnp.where(tiny & ~inside, _cathetus_near_axis(x, y), cathetus)),
        jnp.where(large, math.log(2) + log_abs(z), jnp.where(tiny, _log_near_axis(x, y), ordinary)),
    )


def _cathetus_near_axis(x: Array, y: Array) -> Array:
    """The cathetus for x ≥ 1 and y² ≈ 0: y x / sqrt(x² - 1), and sqrt(y) at x = 1."""
    return jnp.where(x == 1, lax.sqrt(y), y * lax.sqrt(x / (x - 1) * (x / (x + 1))))


def _log_near_axis(x: Array, y: Array) -> Array:
    """The imaginary part for y² ≈ 0: y / sqrt(1 - x²) inside, acosh(x) outside, sqrt(y) at 1."""
    below, above = 1 - x, x - 1
    inside = y / lax.sqrt(below * (1 + x))
    outside = lax.log1p(above + lax.sqrt(above * (x + 1)))
    return jnp.where(x < 1, inside, jnp.where(x == 1, lax.sqrt(y), outside))


def asin(z: Complex) -> Complex:
    """Arc sine, cut along the real axis outside [-1, 1]."""
    cathetus, imag = _arcs(z)
    return Complex(lax.atan2(z.real, cathetus), _signed(imag, z.imag))


def acos(z: Complex) -> Complex:
    """Arc cosine, cut along the real axis outside [-1, 1]."""
    cathetus, imag = _arcs(z)
    return Complex(lax.atan2(cathetus, z.real), -_signed(imag, z.imag))


def acosh(z: Complex) -> Complex:
    """Inverse hyperbolic cosine: ±i acos(z), with a real part that is not negative."""
    cathetus, real = _arcs(z)
    return Complex(real, _signed(lax.atan2(cathetus, z.real), z.imag))


def asinh(z: Complex) -> Complex:
    """`-i asin(i z)`."""
    return times_minus_i(asin(times_i(z)))


def atanh(z: Complex) -> Complex:
    """Inverse hyperbolic tangent, cut along the real axis outside [-1, 1].

    Real part log1p(4x / ((1 - x)² + y²)) / 4, imaginary part atan2(2y, (1 - x)(1 + x) - y²) / 2.
    """
    x, y = abs(z.real), abs(z.imag)
    below = 1 - x
    real = 0.25 * lax.log1p(4 * x / (below * below + y * y))
    imag = 0.5 * lax.atan2(2 * z.imag, below * (1 + x) - y * y)
    big = lax.max(x, y)
    large = big > math.sqrt(float(jnp.finfo(x.dtype).max)) / 8
    ratio = lax.min(x, y) / big
    distant = jnp.where(big == np.inf, 0, (1 / big) * (x / big) / (1 + ratio * ratio))
    real = jnp.where(large, distant, real)
    right_angle = _signed(lax.full_like(x, math.pi / 2), z.imag)
    return Complex(_signed(real, z.real), jnp.where(large, right_angle, imag))


def atan(z: Complex) -> Complex:
    """`-i atanh(i z)`."""
    return times_minus_i(atanh(times_i(z)))


for _name, _fn in {
    "asin": asin, "acos": acos, "atan": atan, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}.items():  # fmt: skip
    rules.complex(_name, lambda z, *, _fn=_fn, **_: _fn(z))
