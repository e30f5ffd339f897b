"""Arithmetic, comparison and conversion of complex numbers, on pairs of real arrays.

The functions work on `Complex` pairs of equal shape and float dtype (f32 for complex64, f64 for
complex128) and are what other modules build on; `rules` at the end names the primitives they lower.
Infinities and NaN behave as XLA's CPU backend makes them.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Complex, Rules
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._numerics import sign_bit
from jax2onnx_lax.dtypes import real_dtype

__all__ = [
    "add",
    "conj",
    "div",
    "from_real",
    "hypot",
    "less",
    "maximum",
    "minimum",
    "mul",
    "pack",
    "reciprocal",
    "rules",
    "select",
    "square",
    "sub",
    "unpack",
]

rules = Rules()


# -- between pairs and complex arrays -------------------------------------------------------


def pack(z: Complex) -> Array:
    """The complex array of a pair, for code that is written on complex arrays."""
    return lax.complex(z.real, z.imag)


def unpack(z: Array) -> Complex:
    """The pair of a complex array."""
    return Complex(lax.real(z), lax.imag(z))


def from_real(x: Array) -> Complex:
    """`x + 0j`."""
    return Complex(x, lax.full_like(x, 0))


def select(predicate: Array, if_true: Complex, if_false: Complex) -> Complex:
    """`jnp.where` on pairs of real and imaginary parts.

    Args:
      predicate: booleans that broadcast to the shape of the others.
      if_true: the numbers where `predicate` is True.
      if_false: the numbers elsewhere, of the same dtype.
    """
    return Complex(
        jnp.where(predicate, if_true.real, if_false.real),
        jnp.where(predicate, if_true.imag, if_false.imag),
    )


# -- arithmetic -------------------------------------------------------------------------------


def add(z: Complex, w: Complex) -> Complex:
    """`z + w`."""
    return Complex(z.real + w.real, z.imag + w.imag)


def sub(z: Complex, w: Complex) -> Complex:
    """`z - w`."""
    return Complex(z.real - w.real, z.imag - w.imag)


def conj(z: Complex) -> Complex:
    """`z.real - i z.imag`."""
    return Complex(z.real, -z.imag)


def mul(z: Complex, w: Complex) -> Complex:
    """`z * w` by the definition, without recovery of infinities (as XLA)."""
    return Complex(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real)


def square(z: Complex) -> Complex:
    """`z * z`; the factored real part keeps its digits near the diagonals."""
    product = z.real * z.imag
    diagonal = (abs(z.real) == abs(z.imag)) & lax.is_finite(z.real)
    real = jnp.where(diagonal, 0.0, (z.real - z.imag) * (z.real + z.imag))
    return Complex(real, product + product)


def div(z: Complex, w: Complex) -> Complex:
    """`z / w` by R. L. Smith's algorithm 116 (Communications of the ACM 5, 1962).

    Infinities, zeros and NaN are those of ISO C, annex G.5.1.
    """
    wide = abs(w.real) >= abs(w.imag)
    big, small = jnp.where(wide, w.real, w.imag), jnp.where(wide, w.imag, w.real)
    ratio = small / big
    denominator = big + small * ratio
    real = jnp.where(wide, z.real + z.imag * ratio, z.real * ratio + z.imag) / denominator
    imag = jnp.where(wide, z.imag - z.real * ratio, z.imag * ratio - z.real) / denominator
    return _divide_special(z, w, Complex(real, imag))


def _divide_special(z: Complex, w: Complex, quotient: Complex) -> Complex:
    """`quotient` = z / w, where both its parts are NaN computed anew: division by zero, infinite operands."""
    z_infinite, w_infinite = _any_infinite(z), _any_infinite(w)
    w_zero = (w.real == 0) & (w.imag == 0)
    z_unit = select(z_infinite, _infinite_directions(z), z)
    w_unit = select(w_infinite, _infinite_directions(w), w)
    product = mul(z_unit, conj(w_unit))
    infinity = np.inf
    by_zero = Complex(_with_sign_of(infinity, w.real) * z.real, _with_sign_of(infinity, w.real) * z.imag)
    special = select(w_infinite & _finite(z), Complex(0.0 * product.real, 0.0 * product.imag), quotient)
    special = select(z_infinite & _finite(w), Complex(infinity * product.real, infinity * product.imag), special)
    special = select(w_zero & ~((z.real != z.real) & (z.imag != z.imag)), by_zero, special)
    lost = (quotient.real != quotient.real) & (quotient.imag != quotient.imag)
    return select(lost, special, quotient)


def _any_infinite(z: Complex) -> Array:
    """A mask of the numbers that have an infinite component."""
    return (abs(z.real) == np.inf) | (abs(z.imag) == np.inf)


def _finite(z: Complex) -> Array:
    """A mask of the numbers whose components are both finite."""
    return lax.is_finite(z.real) & lax.is_finite(z.imag)


def _infinite_directions(z: Complex) -> Complex:
    """±1 for infinite components, 0 for the others."""
    return Complex(_direction(z.real), _direction(z.imag))


def _direction(x: Array) -> Array:
    """±1 where `x` is infinite, else 0."""
    return jnp.where(abs(x) == np.inf, lax.sign(x), 0.0)


def _with_sign_of(magnitude: float, x: Array) -> Array:
    """`copysign` of a constant, signed zeros included."""
    return jnp.where(sign_bit(x), -magnitude, jnp.full((), magnitude, x.dtype))


def reciprocal(z: Complex) -> Complex:
    """`1 / z`."""
    one = Complex(lax.full_like(z.real, 1), lax.full_like(z.real, 0))
    return div(one, z)


def hypot(x: Array, y: Array) -> Array:
    """`sqrt(x² + y²)` without overflow or underflow of the squares; NaN if one operand is."""
    x, y = abs(x), abs(y)
    big, small = lax.max(x, y), lax.min(x, y)
    ratio = small / big
    length = big * lax.sqrt(1 + ratio * ratio)
    return jnp.where(big == small, np.sqrt(2).astype(x.dtype) * big, length)


def _sign(z: Complex) -> Complex:
    """`z / |z|`, and 0 for 0."""
    length = hypot(z.real, z.imag)
    return select(length == 0, z, Complex(z.real / length, z.imag / length))


def _integer_pow(z: Complex, *, y: int) -> Complex:
    """`z ** y` by repeated squaring."""
    if y == 0:
        return Complex(lax.full_like(z.real, 1), lax.full_like(z.real, 0))
    result, exponent = None, abs(y)
    while exponent:
        if exponent & 1:
            result = z if result is None else mul(result, z)
        exponent >>= 1
        z = mul(z, z) if exponent else z
    assert result is not None
    return reciprocal(result) if y < 0 else result


# -- order (lexicographic, as JAX) ------------------------------------------------------------


def less(z: Complex, w: Complex) -> Array:
    """`z < w`, real parts first."""
    return jnp.where(z.real == w.real, z.imag < w.imag, z.real < w.real)


def maximum(z: Complex, w: Complex) -> Complex:
    """The lexicographically greater; the second operand if one real part is NaN."""
    return select(less(w, z), z, w)


def minimum(z: Complex, w: Complex) -> Complex:
    """The lexicographically smaller; the second operand if one real part is NaN."""
    return select(less(z, w), z, w)


def _equal(z: Complex, w: Complex) -> Array:
    """`z == w`."""
    return (z.real == w.real) & (z.imag == w.imag)


# -- conversion ---------------------------------------------------------------------------------


def _as_pair(z: Complex | Array, dtype: DtypeLike) -> Complex:
    """A number as a pair of the components' dtype."""
    if not isinstance(z, Complex):
        return from_real(lax.convert_element_type(z, dtype))
    return Complex(*(lax.convert_element_type(x, dtype) for x in z))


def _convert_element_type(z: Complex | Array, *, new_dtype: DtypeLike, **_: object) -> Complex | Array:
    """Complex to complex per component, to bool as "not zero", to real by dropping the imaginary part.

    The imaginary part of a real number is zero.
    """
    if np.dtype(new_dtype).kind == "c":
        return _as_pair(z, real_dtype(new_dtype))
    assert isinstance(z, Complex), "one of the two dtypes is complex"
    if np.dtype(new_dtype) == np.bool_:
        return (z.real != 0) | (z.imag != 0)
    return lax.convert_element_type(z.real, new_dtype)


def _product(z: Complex | Array, w: Complex | Array, *, out_dtype: DtypeLike | None = None) -> Complex | Array:
    """`z * w`, of operands that are converted to `out_dtype` first if it is given."""
    if out_dtype is not None:
        z, w = (_convert_element_type(x, new_dtype=out_dtype) for x in (z, w))
    if isinstance(z, Complex) and isinstance(w, Complex):
        return mul(z, w)
    assert not isinstance(z, Complex) and not isinstance(w, Complex), "the operands have the same type"
    return z * w


def _conj(z: Complex | Array, **_: object) -> Complex:
    """The conjugate, of a real number too, whose type becomes complex."""
    return conj(z) if isinstance(z, Complex) else from_real(z)


rules.complex("real", lambda z: z.real)
rules.complex("imag", lambda z: z.imag)
rules.complex("complex", Complex)
rules.complex("conj", _conj)
rules.complex("abs", lambda z: hypot(z.real, z.imag))
rules.complex("sign", _sign)
rules.complex("mul", _product)
rules.complex("square", square)
rules.complex("div", div)
rules.complex("integer_pow", _integer_pow)
rules.complex("max", maximum)
rules.complex("min", minimum)
rules.complex("clamp", lambda low, z, high: minimum(maximum(low, z), high))
rules.complex("eq", _equal)
rules.complex("ne", lambda z, w: ~_equal(z, w))
rules.complex("convert_element_type", _convert_element_type)
rules.complex("bitcast_convert_type", lambda z, *, new_dtype: z)

# Linear in their operands, hence the same on each component.
rules.componentwise("add", "add_any", "sub", "neg", "reduce_sum", "cumsum", "reduce_window_sum",
                    "scatter-add", "scatter-sub", "select_n", "pad")  # fmt: skip
