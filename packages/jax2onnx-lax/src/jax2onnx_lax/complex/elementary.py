"""Complex exponentials, logarithms, powers and trigonometric functions, on pairs of real arrays.

Sources: W. Kahan, "Branch cuts for complex elementary functions", in The State of the Art in
Numerical Analysis (1987), for the square root and tanh; T. J. Dekker, "A floating-point technique
for extending the available precision", Numerische Mathematik 18 (1971), for the exact products
inside the logarithms. Signs of zeros and infinities are those of XLA's CPU backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Complex, Rules

from jax2onnx_lax._numerics import sign_bit
from jax2onnx_lax.complex.arithmetic import from_real, hypot, mul, reciprocal, select

__all__ = [
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log_abs",
    "logistic",
    "power",
    "rsqrt",
    "rules",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "times_i",
    "times_minus_i",
]

rules = Rules()


def times_i(z: Complex) -> Complex:
    """`i z`."""
    return Complex(-z.imag, z.real)


def times_minus_i(z: Complex) -> Complex:
    """`-i z`."""
    return Complex(z.imag, -z.real)


# -- exponentials -------------------------------------------------------------------------------


def exp(z: Complex) -> Complex:
    """`e^z`; e^(x/2) is applied twice, so that the result overflows only where it must."""
    half = lax.exp(z.real * 0.5)
    imag = half * lax.sin(z.imag) * half
    return Complex(half * lax.cos(z.imag) * half, jnp.where(z.imag == 0, 0.0, imag))


def expm1(z: Complex) -> Complex:
    """`e^z - 1`, with cos(y) - 1 = -2 sin²(y/2)."""
    sine = lax.sin(z.imag * 0.5)
    real = lax.expm1(z.real) * lax.cos(z.imag) - 2 * (sine * sine)
    return Complex(real, exp(z).imag)


def _exp2(z: Complex) -> Complex:
    """`2^z`."""
    return exp(mul(z, Complex(math.log(2), 0.0)))


def _log2(z: Complex) -> Complex:
    """`log(z) / log(2)`."""
    w = log(z)
    return Complex(w.real / math.log(2), w.imag / math.log(2))


def logistic(z: Complex) -> Complex:
    """`1 / (1 + e^-z)`."""
    e = exp(Complex(-z.real, -z.imag))
    return reciprocal(Complex(1 + e.real, e.imag))


# -- logarithms -----------------------------------------------------------------------------------


def exact_square(x: Array) -> tuple[Array, Array]:
    """Dekker's product: (p, e) in the dtype of `x` with p + e = x² exactly; NaN where x or its square overflows."""
    bits = 12 if x.dtype == np.float32 else 27
    product, scaled = x * x, x * float(2**bits + 1)
    high = scaled - (scaled - x)
    low = x - high
    return product, ((high * high - product) + 2 * (high * low)) + low * low


def exact_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Knuth's sum: (s, e) with s + e = x + y exactly."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def log_abs(z: Complex) -> Array:
    """`log |z|` to full relative precision: |z|² - 1 is computed exactly where it is small."""
    x, y = abs(z.real), abs(z.imag)
    big, small = lax.max(x, y), lax.min(x, y)
    ratio = small / big
    diagonal = big == small  # zeros and infinities included
    far = lax.log(big) + jnp.where(diagonal, 0.5 * math.log(2), 0.5 * lax.log1p(ratio * ratio))
    big_square, big_rest = exact_square(big)
    small_square, small_rest = exact_square(small)
    excess, rest = exact_sum(big_square - 1, small_square)
    near = 0.5 * lax.log1p(excess + (rest + (big_rest + small_rest)))
    return jnp.where((big >= 0.5) & (big <= 2), near, far)


def log(z: Complex) -> Complex:
    """`log z`, cut along the negative real axis."""
    return Complex(log_abs(z), lax.atan2(z.imag, z.real))


def log1p(z: Complex) -> Complex:
    """`log(1 + z)`; near zero from |1 + z|² - 1 = 2x + x² + y², summed exactly."""
    far = log_abs(Complex(1 + z.real, z.imag))
    x_square, x_rest = exact_square(z.real)
    y_square, y_rest = exact_square(z.imag)
    partial, rest = exact_sum(2 * z.real, y_square)
    excess, more = exact_sum(partial, x_square)
    near = 0.5 * lax.log1p(excess + ((rest + more) + (x_rest + y_rest)))
    close = (abs(z.real) < 0.5) & (abs(z.imag) < 2)
    return Complex(jnp.where(close, near, far), lax.atan2(z.imag, 1 + z.real))


# -- powers -----------------------------------------------------------------------------------------


def _half_angle(z: Complex) -> tuple[Array, Array, Array]:
    """sqrt((|x| + |z|) / 2), sqrt(|z|) and max(|x|, |y|), free of overflow and underflow."""
    x, y = abs(z.real), abs(z.imag)
    big, small = lax.max(x, y), lax.min(x, y)
    ratio = small / jnp.where(big == 0, 1, big)
    length = lax.sqrt(1 + ratio * ratio)
    root = lax.sqrt(big)
    return root * lax.sqrt(0.5 * (jnp.where(x >= y, 1, ratio) + length)), root * lax.sqrt(length), big


def sqrt(z: Complex) -> Complex:
    """The square root in the right half plane; an infinite imaginary part gives inf ± inf i."""
    major, _, big = _half_angle(z)
    minor = z.imag / jnp.where(big == 0, 1, 2 * major)
    left = z.real < 0
    root = Complex(
        jnp.where(left, abs(minor), major),
        jnp.where(left, jnp.where(z.imag < 0, -major, major), minor),
    )
    infinite = (big == np.inf) & (abs(z.imag) == big)
    return select(infinite, Complex(big, z.imag), root)


def rsqrt(z: Complex) -> Complex:
    """`1 / sqrt(z)` = conj(sqrt(z)) / |z|; inf + nan i at zero, zero at infinity.

    On the negative real axis the sign of a zero imaginary part decides.
    """
    major, length, big = _half_angle(z)
    minor = abs(z.imag) / (2 * major)
    left, infinite = z.real < 0, big == np.inf
    real = jnp.where(left, minor, major) / length / length
    imag = jnp.where(left, major, minor) / length / length
    signed = jnp.where(sign_bit(z.imag), imag, -imag)
    return Complex(
        jnp.where(infinite, 0, jnp.where(big == 0, np.inf, real)),
        jnp.where(infinite, 0, signed),
    )


def power(z: Complex, w: Complex | Array) -> Complex:
    """`z ** w` for a complex or real `w`, in polar form; 1 for a zero exponent or base 1 (as XLA)."""
    w = w if isinstance(w, Complex) else from_real(lax.convert_element_type(w, z.real.dtype))
    length, angle = hypot(z.real, z.imag), lax.atan2(z.imag, z.real)
    modulus = lax.pow(length, w.real) * lax.exp(-w.imag * angle)
    argument = w.real * angle + w.imag * lax.log(length)
    result = Complex(modulus * lax.cos(argument), modulus * lax.sin(argument))
    nothing = lax.full_like(z.real, 0)
    real = (z.imag == 0) & (w.imag == 0) & ((z.real == np.inf) | ((z.real == 0) & (w.real > 0)))
    result = select(real, Complex(modulus, nothing), result)
    is_one = ((w.real == 0) & (w.imag == 0)) | ((z.real == 1) & (z.imag == 0))
    return select(is_one, Complex(lax.full_like(z.real, 1), nothing), result)


# -- trigonometric and hyperbolic functions -------------------------------------------------------


def _times_cosh_sinh(x: Array, y: Array, t: Array) -> tuple[Array, Array]:
    """`x cosh(t)` and `y sinh(t)`, which overflow only where they must.

    With g = 1 - e^(-2|t|): cosh t = e^|t| (2 - g) / 2 and sinh |t| = e^|t| g / 2.
    """
    half, decay = lax.exp(abs(t) * 0.5), -lax.expm1(-2 * abs(t))
    cosh = (x * (0.5 * (2 - decay))) * half * half
    sinh = (y * (0.5 * decay * lax.sign(t))) * half * half
    return cosh, sinh


def sin(z: Complex) -> Complex:
    """`sin x cosh y + i cos x sinh y`; on the imaginary axis imaginary even for infinite y."""
    real, imag = _times_cosh_sinh(lax.sin(z.real), lax.cos(z.real), z.imag)
    return Complex(jnp.where(z.real == 0, 0, real), imag)


def cos(z: Complex) -> Complex:
    """`cos x cosh y - i sin x sinh y`; on the imaginary axis real even for infinite y."""
    real, imag = _times_cosh_sinh(lax.cos(z.real), -lax.sin(z.real), z.imag)
    return Complex(real, jnp.where(z.real == 0, 0, imag))


def sinh(z: Complex) -> Complex:
    """`sinh x cos y + i cosh x sin y`."""
    imag, real = _times_cosh_sinh(lax.sin(z.imag), lax.cos(z.imag), z.real)
    return Complex(real, jnp.where(z.imag == 0, 0, imag))


def cosh(z: Complex) -> Complex:
    """`cosh x cos y + i sinh x sin y`."""
    real, imag = _times_cosh_sinh(lax.cos(z.imag), lax.sin(z.imag), z.real)
    return Complex(real, jnp.where(z.imag == 0, 0, imag))


def tanh(z: Complex) -> Complex:
    """Kahan's tanh; for large |x| it is ±1 with the imaginary part 4 sin(y) cos(y) e^(-2|x|)."""
    limit = 10.0 if z.real.dtype == np.float32 else 22.0
    large = abs(z.real) > limit
    tangent, sine = lax.tan(z.imag), lax.sinh(jnp.where(large, 0, z.real))
    secant = 1 + tangent * tangent
    denominator = 1 + secant * (sine * sine)
    real = secant * lax.sqrt(1 + sine * sine) * sine / denominator
    decay = 4 * lax.sin(z.imag) * lax.cos(z.imag) * lax.exp(-2 * abs(z.real))
    rest = jnp.where((abs(z.real) == np.inf) & (decay != decay), 0, decay)
    imag = jnp.where(z.imag == 0, z.imag, jnp.where(large, rest, tangent / denominator))
    return Complex(jnp.where(large, lax.sign(z.real) + 0 * rest, real), imag)


def tan(z: Complex) -> Complex:
    """`-i tanh(i z)`."""
    return times_minus_i(tanh(times_i(z)))


def _without_params(fn: Callable[..., Complex]) -> Callable[..., Complex]:
    """`fn` as the rule of a primitive whose parameter `accuracy`, a wish to XLA's backend, has no meaning here."""
    return lambda *operands, **_: fn(*operands)


_FUNCTIONS: dict[str, Callable[..., Complex]] = {
    "exp": exp, "exp2": _exp2, "expm1": expm1, "logistic": logistic, "log": log, "log2": _log2, "log1p": log1p,
    "sqrt": sqrt, "rsqrt": rsqrt, "pow": power, "sin": sin, "cos": cos, "tan": tan,
    "sinh": sinh, "cosh": cosh, "tanh": tanh,
}  # fmt: skip
for _name, _fn in _FUNCTIONS.items():
    rules.complex(_name, _without_params(_fn))
