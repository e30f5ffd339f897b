"""The error function and its relatives, in single and double precision.

Sources: S. L. Moshier, "Methods and Programs for Mathematical Functions" (Cephes, ndtr) for erf and
erfc; M. Giles, "Approximating the erfinv function", GPU Computing Gems (2011) for its inverse.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Rules

from jax2onnx_lax._numerics import computed_in, horner

__all__ = ["rules"]

rules = Rules()

# Highest degree first. erf(x) = x T(x^2)/U(x^2) for |x| < 1.
_ERF_T = (9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3,
          7.00332514112805075473e3, 5.55923013010394962768e4)  # fmt: skip
_ERF_U = (1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3,
          2.26290000613890934246e4, 4.92673942608635921086e4)  # fmt: skip
# erfc(x) = exp(-x^2) P(x)/Q(x) for 1 <= x < 8, R(x)/S(x) instead from 8 on.
_ERFC_P = (2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
           4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
           9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2)  # fmt: skip
_ERFC_Q = (1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
           9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
           1.65666309194161350182e3, 5.57535340817727675546e2)  # fmt: skip
_ERFC_R = (5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0,
           6.16021097993053585195e0, 7.40974269950448939160e0, 2.97886665372100240670e0)  # fmt: skip
_ERFC_S = (1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1,
           1.70814450747565897222e1, 9.60896809063285878198e0, 3.36907645100081516050e0)  # fmt: skip
# The same in single precision: erfc(x) = exp(-x^2)/x P(1/x^2) for 1 <= x < 2, R from 2 on.
_ERFCF_P = (2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1,
            6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1,
            5.638259427386472e-1)  # fmt: skip
_ERFCF_R = (-1.047766399936249e1, 1.297719955372516e1, -7.495518717768503e0, 2.921019019210786e0,
            -1.015265279202700e0, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1)  # fmt: skip
# Giles, single precision: erf_inv(x) = x p(w), w = -log(1 - x^2).
_ERF_INV_CENTRAL = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_ERF_INV_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                 -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip
# Beyond w = 14.5 single precision ends: sqrt(w) fitted to 1e-4, a start for Halley's method.
_ERF_INV_FAR_TAIL = (-2.9384757e-05, 1.01039396, -0.20134256)


def _exp_minus_square(x: Array) -> Array:
    """exp(-x^2) without the rounding error of x^2: x = h + l where h^2 is exact."""
    h = lax.round(16 * x, lax.RoundingMethod.TO_NEAREST_EVEN) / 16
    return lax.exp(-h * h) * lax.exp(-(x - h) * (x + h))


def _erf_small(x: Array) -> Array:
    """The error function for |x| <= 1: odd, x times a rational function of x^2."""
    z = x * x
    # A power of two is exact, and lets both fit into half precision, in which an NPU computes.
    t, u = ([c * 2.0**-8 for c in coefficients] for coefficients in (_ERF_T, _ERF_U))
    return x * horner(z, t) / horner(z, u)


def _erfc_large(a: Array) -> Array:
    """erfc for a >= 1; the argument is capped where the result has long underflowed."""
    if a.dtype == np.float64:
        a = jnp.minimum(a, 28.0)
        near = horner(a, _ERFC_P) / horner(a, _ERFC_Q)
        return _exp_minus_square(a) * jnp.where(a < 8, near, horner(a, _ERFC_R) / horner(a, _ERFC_S))
    a = jnp.minimum(a, 11.0)
    q = 1 / a
    y = q * q
    return _exp_minus_square(a) * q * jnp.where(a < 2, horner(y, _ERFCF_P), horner(y, _ERFCF_R))


@rules.decompose("erf")
@computed_in(np.float32)
def erf(x: Array) -> Array:
    """The error function: rational near 0, 1 - erfc(|x|) with the sign of x beyond 1."""
    a = jnp.abs(x)
    tail = 1 - _erfc_large(jnp.maximum(a, 1.0))
    return jnp.where(a >= 1, jnp.where(x < 0, -tail, tail), _erf_small(x))


@rules.decompose("erfc")
@computed_in(np.float32)
def erfc(x: Array, *, accuracy: object = None) -> Array:
    """The complementary error function: 1 - erf near 0, exp(-x^2) times a rational function beyond 1.

    The far tail keeps its relative precision.
    """
    a = jnp.abs(x)
    tail = _erfc_large(jnp.maximum(a, 1.0))
    return jnp.where(a < 1, 1 - lax.erf(x), jnp.where(x < 0, 2 - tail, tail))


@rules.decompose("erf_inv")
@computed_in(np.float32)
def erf_inv(x: Array) -> Array:
    """The inverse error function: Giles's polynomial, for float64 corrected by two steps of Halley's method."""
    w = -lax.log((1 - x) * (1 + x))
    root = lax.sqrt(w)
    tail = horner(root - 3, _ERF_INV_TAIL)
    if x.dtype == np.float64:
        tail = jnp.where(w < 14.5, tail, horner(root, _ERF_INV_FAR_TAIL))
    y = x * jnp.where(w < 5, horner(w - 2.5, _ERF_INV_CENTRAL), tail)
    if x.dtype == np.float64:
        y = _halley_step(_halley_step(y, x), x)
    return jnp.where(jnp.abs(x) == 1, x * np.inf, y)


def _halley_step(y: Array, x: Array) -> Array:
    """One step of Halley's method for erf(y) = x from the estimate `y`, with f'' / f' = -2y.

    Beyond 1/2 the residual is taken from erfc, which is small there.
    """
    a = jnp.abs(y)
    small = _erf_small(a)
    complement = jnp.where(a < 1, 1 - small, _erfc_large(jnp.maximum(a, 1.0)))
    residual = jnp.where(jnp.abs(x) < 0.5, small - jnp.abs(x), (1 - jnp.abs(x)) - complement)
    step = residual * (np.sqrt(np.pi) / 2) / _exp_minus_square(a)
    moved = a - step / (1 + a * step)
    return jnp.where(x < 0, -moved, jnp.where(x != 0, moved, x))
