"""Conversion between element types with XLA CPU's rounding, saturation and wrap-around.

ONNX leaves a conversion out of range undefined, so float to integer clamps first and maps NaN to 0. Integers wrap
in both. The 8-bit floats overflow to NaN, or to infinity where they have one.
"""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Rules, Value
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._numerics import sign_bit
from jax2onnx_lax.dtypes import Dtype, is_float, is_integer

__all__ = ["convert", "power_of_two_below", "rules", "widest"]

rules = Rules()

_E5M2 = np.dtype(ml_dtypes.float8_e5m2)
_E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
# From here on (e5m2) or beyond (e4m3fn) a float32 rounds past the largest finite number; a cast need not see it.
_E5M2_OVERFLOW, _E4M3FN_LAST = 61440.0, 464.0


@rules.lower("convert_element_type")
def convert_element_type(ctx: Context, x: Value, **_: object) -> Value:
    """`x` in the dtype of the result."""
    return convert(ctx, x, ctx.avals_out[0].dtype)


@rules.lower("stage")
def stage(ctx: Context, x: Value, **_: object) -> Value:
    """The identity."""
    return x


def convert(ctx: Context, x: Value, dtype: DtypeLike) -> Value:
    """Convert an array with JAX's values: by `Context.cast` where ONNX's Cast gives them, else by other operators around it.

    Args:
      ctx: the context of the rule.
      x: the array.
      dtype: the wanted dtype, not complex.
    """
    source, target = ctx.dtype(x), np.dtype(dtype)
    if source == target:
        return x
    if _is_float8(source) and target != np.float32:
        return convert(ctx, ctx.cast(x, np.float32), target)
    if _is_float8(target):
        return _to_float8(ctx, ctx.cast(x, np.float32), target)
    if source == np.float64 and target == np.float16:  # by way of float32, a kernel may round twice
        return ctx.cast(ctx.jax(_rounded_to_half, x), target)
    if is_integer(target) and is_float(source):
        return _float_to_integer(ctx, x, target)
    if _is_narrow(target) and source.itemsize > 1:
        return ctx.cast(ctx.cast(x, np.int8), target)
    return ctx.cast(x, target)


def _rounded_to_half(x: Array) -> Array:
    """float64 values rounded to the grid of float16, to nearest, which a conversion does not change.

    Normal numbers by the splitting of T. J. Dekker, "A floating-point technique for extending the available
    precision" (1971); those below, whose grid is fixed, by a large number added and taken away.
    """
    a = jnp.minimum(jnp.abs(x), 2.0**17)
    scaled = a * (2.0**42 + 1)
    normal = scaled - (scaled - a)
    grid = 1.5 * 2.0**28
    rounded = jnp.where(a < 2.0**-14, (a + grid) - grid, normal)
    return jnp.where(rounded > 65504, np.inf, rounded) * jnp.where(sign_bit(x), -1.0, 1.0)


def _is_float8(dtype: DtypeLike) -> bool:
    return is_float(dtype) and np.dtype(dtype).itemsize == 1


def _is_narrow(dtype: DtypeLike) -> bool:
    """Whether the dtype is an integer one of less than 8 bits."""
    return is_integer(dtype) and int(jnp.iinfo(dtype).bits) < 8


def _float_to_integer(ctx: Context, x: Value, target: DtypeLike) -> Value:
    """Truncate toward zero, saturate, NaN to 0.

    Where the float type that clamps does not hold the largest integer, what reaches the next power of two is chosen afterwards.
    """
    info = jnp.iinfo(target)
    low, high = int(info.min), int(info.max)
    if ctx.dtype(x) != np.float64:
        x = ctx.cast(x, widest(ctx) if info.bits == 32 else np.float32)
    if not ctx.assumes(Assumption.FINITE):
        x = ctx.op.Where(ctx.op.IsNaN(x), ctx.constant(0, like=x), x)
    dtype = ctx.dtype(x)
    if info.bits <= jnp.finfo(dtype).nmant + 1:
        clipped = ctx.op.Clip(x, ctx.constant(low, like=x), ctx.constant(high, like=x))
        if info.bits < 8:
            clipped = ctx.cast(clipped, np.int8)
        return ctx.cast(clipped, target)
    limit = dtype.type(high)
    beyond = ctx.op.GreaterOrEqual(x, ctx.constant(limit))
    inside = ctx.op.Clip(x, ctx.constant(low, like=x), ctx.constant(np.nextafter(limit, dtype.type(0))))
    return ctx.op.Where(beyond, ctx.constant(np.asarray(high, target)), ctx.cast(inside, target))


def widest(ctx: Context) -> Dtype:
    """The float type of most digits that the target computes with."""
    return np.dtype(np.float64 if ctx.supports("Mul", np.float64) else np.float32)


def _to_float8(ctx: Context, x: Value, target: DtypeLike) -> Value:
    """float32 to one of the 8-bit floats; overflow gives infinity or NaN, it does not saturate, as in JAX."""
    if ctx.assumes(Assumption.FINITE):
        return ctx.op.Cast(x, to=target, saturate=0)
    if target == _E5M2:
        beyond = ctx.op.GreaterOrEqual(ctx.op.Abs(x), ctx.constant(_E5M2_OVERFLOW, like=x))
        x = ctx.op.Where(beyond, ctx.op.Mul(x, ctx.constant(np.inf, like=x)), x)
    elif target == _E4M3FN:
        beyond = ctx.op.Greater(ctx.op.Abs(x), ctx.constant(_E4M3FN_LAST, like=x))
        x = ctx.op.Where(beyond, ctx.constant(np.nan, like=x), x)
    return ctx.op.Cast(x, to=target, saturate=0)


# ---------------------------------------------------------------------------------------- reduce_precision


@rules.lower("reduce_precision")
def reduce_precision(ctx: Context, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    """`x` rounded to a narrower format; formats at least as wide change nothing, bfloat16 and back is two casts."""
    info = jnp.finfo(ctx.dtype(x))
    if exponent_bits >= info.nexp and mantissa_bits >= info.nmant:
        return x
    is_bfloat16 = (exponent_bits, mantissa_bits) == (8, 7) and ctx.dtype(x) == np.float32
    if is_bfloat16 and ctx.supports("Cast", ml_dtypes.bfloat16):
        return ctx.cast(ctx.cast(x, ml_dtypes.bfloat16), np.float32)
    if ctx.target.rounding:
        ctx.decline(
            f"{ctx.target.name} computes in less precision than {ctx.dtype(x)}, so that nothing can be rounded to a given one"
        )
    wide = np.float64 if ctx.dtype(x) == np.float64 else widest(ctx)
    return ctx.jax(_reduce_precision, x, wide=wide, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


def _reduce_precision(x: Array, *, wide: DtypeLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to nearest even at `mantissa_bits`, overflow to infinity, flush subnormal numbers to zero."""
    info = jnp.finfo(x.dtype)
    y = x.astype(wide)
    if mantissa_bits < info.nmant:
        rounded = _rounded(y, mantissa_bits, float(info.smallest_normal))
        # A choice that may be -0.0 comes second: a Where need not keep the sign of a zero in its first.
        y = jnp.where(jnp.isinf(y), y, rounded)
    if exponent_bits < info.nexp:
        bias = 2 ** (exponent_bits - 1) - 1
        a = jnp.abs(y)
        y = y * (a >= 2.0 ** (1 - bias)).astype(y.dtype)
        y = jnp.where(a >= 2.0 ** (bias + 1), y * np.inf, y)
    return y.astype(x.dtype)


def _rounded(y: Array, mantissa_bits: int, smallest: float) -> Array:
    """`y` rounded to multiples of the last place of its power of two, of which `smallest` is the least."""
    is_scaled = y.dtype == np.float32 and smallest < 2.0**-60
    if is_scaled:  # units of small numbers are subnormal, which not every runtime divides by
        small = jnp.abs(y) < 2.0**-60
        up, down, one = y.dtype.type(2.0**60), y.dtype.type(2.0**-60), y.dtype.type(1)
        y, smallest = y * jnp.where(small, up, one), smallest * 2.0**60
    unit = power_of_two_below(y, smallest) * 2.0**-mantissa_bits
    rounded = lax.round(y / unit, lax.RoundingMethod.TO_NEAREST_EVEN) * unit
    return rounded * jnp.where(small, down, one) if is_scaled else rounded


def power_of_two_below(x: Array, smallest: float) -> Array:
    """The largest power of two up to |x|, at least `smallest`; float32 or float64.

    S. M. Rump, T. Ogita, S. Oishi, "Accurate floating-point summation II" (2008), algorithm 3.6; scaled,
    so that nothing overflows or underflows on the way.
    """
    digits = jnp.finfo(x.dtype).nmant + 1
    a = jnp.abs(x)
    down, up = x.dtype.type(2.0**-60), x.dtype.type(2.0**60)
    scale = jnp.where(a > 1, down, up)
    inverse = jnp.where(a > 1, up, down)
    scaled = a * scale
    q = scaled * (2.0 ** (digits - 1) + 1)
    # fl((1 - 2^-p) q), p the number of digits, without a factor that may be 1 in the precision.
    below = q - 2.0**-digits * q
    power = jnp.abs(q - below) * inverse
    return jnp.maximum(power, smallest)
