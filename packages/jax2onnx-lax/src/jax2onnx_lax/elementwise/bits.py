"""Bit patterns: `bitcast_convert_type` between any widths, and the neighbours of a floating-point number.

From opset 26 ONNX has BitCast. Below, the fields are computed: the exponent from the largest power of two
below the number, the rest by exact scaling. All values, subnormal ones and signed zeros included, are exact;
NaN becomes the quiet NaN without payload.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Rules, Value
from jax2onnx_graph.build.builder import Array as NumpyArray
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._numerics import sign_bit
from jax2onnx_lax.dtypes import Dtype, is_float
from jax2onnx_lax.elementwise.conversion import convert, power_of_two_below, widest
from jax2onnx_lax.elementwise.integer import unsigned, width
from jax2onnx_lax.integers._values import holds_number, integers

__all__ = ["rules"]

rules = Rules()

_BITCAST_OPSET = 26


class _Format(NamedTuple):
    """An IEEE-like format: its width, the width of its mantissa field and the bias of its exponent.

    The properties are bit patterns, as integers.
    """

    bits: int
    mantissa: int
    bias: int

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - 1 - self.mantissa)) - 1) << self.mantissa

    @property
    def quiet_nan(self) -> int:
        return self.infinity | 1 << (self.mantissa - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


def _format(dtype: DtypeLike) -> _Format:
    info = jnp.finfo(dtype)
    return _Format(info.bits, info.nmant, 1 - int(info.minexp))


def _unsigned_of_width(bits: int) -> Dtype:
    return np.dtype(f"uint{bits}")


def _bits(dtype: DtypeLike) -> int:
    """Number of bits of a float or integer dtype."""
    return int(jnp.finfo(dtype).bits) if is_float(dtype) else width(dtype)


@rules.lower("bitcast_convert_type")
def bitcast_convert_type(ctx: Context, x: Value, **_: object) -> Value:
    """Through unsigned integers: source → its bits → the bits in the new width → target."""
    source, target = ctx.dtype(x), ctx.avals_out[0].dtype
    if source == target:
        return x
    if min(_bits(source), _bits(target)) < 8:
        return _narrow(ctx, x, source, target)
    if _bits(source) == _bits(target) and ctx.opset >= _BITCAST_OPSET:
        return ctx.op.BitCast(x, to=target)
    if _bits(source) != _bits(target):
        x = ctx.jax(_change_width, _to_bits(ctx, x), bits=_bits(target))
    else:
        x = _to_bits(ctx, x)
    return _from_bits(ctx, x, target)


def _narrow(ctx: Context, x: Value, source: Dtype, target: Dtype) -> Value:
    """Convert between signed and unsigned integers of the same width below 8 bits."""
    if _bits(source) != _bits(target):
        ctx.pass_on(f"bitcast between {source} and {target}")
    wide = ctx.cast(x, np.uint8 if unsigned(source) == source else np.int8)
    return convert(ctx, wide, target)


def _change_width(x: Array, *, bits: int) -> Array:
    """Unsigned words to words of another width; the low part comes first, on the last axis."""
    source, kind = width(x.dtype), _unsigned_of_width(bits)
    if source > bits:
        parts = [(x >> x.dtype.type(i * bits)).astype(kind) for i in range(source // bits)]
        return jnp.stack(parts, axis=-1)
    words = [x[..., i].astype(kind) << kind.type(i * source) for i in range(bits // source)]
    result = words[0]
    for word in words[1:]:
        result = result | word
    return result


def _to_bits(ctx: Context, x: Value) -> Value:
    """The bit pattern of floats or integers, as unsigned integers of their width."""
    dtype = ctx.dtype(x)
    kind = _unsigned_of_width(_bits(dtype))
    if dtype == kind:
        return x
    if ctx.opset >= _BITCAST_OPSET:
        return ctx.op.BitCast(x, to=kind)
    if not is_float(dtype):
        return ctx.cast(x, kind)
    if dtype.itemsize == 1:
        return ctx.jax(_float8_bits, ctx.cast(x, np.float32), dtype=dtype)
    wide = np.dtype(np.float64) if dtype == np.float64 else widest(ctx)
    integer = np.dtype(np.int64 if wide == np.float64 else np.int32)
    fields = (ctx.cast(field, integer) for field in ctx.jax_several(_float_fields, x, wide=wide))
    return ctx.jax(_assemble, x, *fields)


def _from_bits(ctx: Context, x: Value, target: Dtype) -> Value:
    """The numbers of dtype `target` whose bit patterns are the unsigned integers `x` of the same width."""
    if ctx.dtype(x) == target:
        return x
    if ctx.opset >= _BITCAST_OPSET:
        return ctx.op.BitCast(x, to=target)
    if not is_float(target):
        return ctx.cast(x, target)
    if target.itemsize == 1:
        table = np.arange(256, dtype=np.uint8).view(target).astype(np.float32)
        return ctx.op.Cast(_lookup(ctx, table, x), to=target, saturate=0)
    fraction = _fraction_of_one_exponent(ctx, x, _format(target))
    if fraction is not None:
        scaled = ctx.op.Mul(ctx.cast(fraction, target), ctx.constant(2.0 ** -_format(target).mantissa, target))
        return ctx.op.Add(scaled, ctx.constant(1, target))
    return ctx.jax(_bits_to_float, x, dtype=target)


def _fraction_of_one_exponent(ctx: Context, x: Value, form: _Format) -> Value | None:
    """m where `x` is (m | bits of 1.0) and m is too small to reach the exponent, as random numbers are made."""
    joined = ctx.definition(x)
    if joined is None or joined.primitive != "or":
        return None
    for fraction, one in (joined.operands, joined.operands[::-1]):
        found = integers(ctx, fraction)
        if found.is_within(0, (1 << form.mantissa) - 1) and holds_number(ctx, one, form.bias << form.mantissa):
            return fraction
    return None


def _lookup(ctx: Context, table: NumpyArray, index: Value) -> Value:
    """The elements of a constant vector at unsigned integers."""
    return ctx.op("Gather", ctx.constant(table), ctx.cast(index, np.int32), dims=ctx.dims(index))


def _float8_bits(x: Array, *, dtype: Dtype) -> Array:
    """The uint8 bit pattern of float32 numbers that the 8-bit format has: the place of |x| in it, and the sign."""
    values = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float32)
    ordered = values[np.isfinite(values) | np.isinf(values)]
    place = jnp.sum((jnp.abs(x)[..., None] >= ordered).astype(np.int32), axis=-1) - 1
    code = jnp.where(sign_bit(x), place + 128, place)
    nan = np.array(np.nan, np.float32).astype(dtype).view(np.uint8)
    return jnp.where(x != x, int(nan), code).astype(np.uint8)


def _float_fields(x: Array, *, wide: Dtype) -> tuple[Array, Array]:
    """e and |x| / 2^e * 2^m in the type `wide`, where 2^e is the largest power of two up to |x|, not below the smallest
    normal number, and m the width of the mantissa. What is not finite is taken for 0.
    """
    form = _format(x.dtype)
    magnitude = jnp.abs(x.astype(wide))
    magnitude = jnp.where(magnitude < np.inf, magnitude, 0)
    power = power_of_two_below(magnitude, 2.0 ** (1 - form.bias))
    exponent = lax.round(lax.log(power) * (1 / math.log(2)), lax.RoundingMethod.TO_NEAREST_EVEN)
    return exponent, magnitude / power * 2.0**form.mantissa


def _assemble(x: Array, exponent: Array, fraction: Array) -> Array:
    """The bit pattern: 2^m (e + bias - 1) + |x| / 2^e * 2^m as integers, then infinities and NaN, then the sign."""
    form = _format(x.dtype)
    code = (exponent + (form.bias - 1)) * (1 << form.mantissa) + fraction
    code = jnp.where(jnp.abs(x) == np.inf, code.dtype.type(form.infinity), code)
    code = jnp.where(x != x, code.dtype.type(form.quiet_nan), code)
    kind = _unsigned_of_width(form.bits)
    return code.astype(kind) | jnp.where(sign_bit(x), kind.type(form.sign), kind.type(0))


def _bits_to_float(x: Array, *, dtype: Dtype) -> Array:
    """The numbers of given bit patterns: mantissa times the power of two that a table gives for sign and exponent."""
    form = _format(dtype)
    exponents = 1 << (form.bits - 1 - form.mantissa)
    compute = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    powers = np.ldexp(np.ones(exponents), np.maximum(np.arange(exponents), 1) - form.bias - form.mantissa)
    powers[-1] = np.inf
    table = jnp.asarray(np.concatenate([powers, -powers]).astype(compute))
    field = (x >> x.dtype.type(form.mantissa)).astype(np.int32)
    rest = (x & x.dtype.type((1 << form.mantissa) - 1)).astype(np.int64)
    exponent = field & np.int32(exponents - 1)
    hidden = jnp.where(exponent == 0, np.int64(0), np.int64(1 << form.mantissa))
    value = (rest + hidden).astype(compute) * table.at[field].get(mode="promise_in_bounds")
    nan = (exponent == exponents - 1) & (rest != 0)
    return jnp.where(nan, np.nan, value).astype(dtype)


@rules.decompose("nextafter")
def nextafter(x: Array, y: Array) -> Array:
    """The neighbour of `x` in the direction of `y`: `x` plus a little more than half a unit in the last place, rounded.

    S. M. Rump, P. Zimmermann, S. Boldo, G. Melquiond, "Computing predecessor and successor in rounding to
    nearest" (2009): with u = 2^-p, |x| u (1 + 2u) serves for normal numbers, three quarters of the smallest
    subnormal number below. Up to single precision the sum is computed in float64 and rounded by the conversion.
    """
    info = jnp.finfo(x.dtype)
    unit = 2.0 ** -(int(info.nmant) + 1)
    wide, toward = x.astype(np.float64), y.astype(np.float64)
    if x.dtype == np.float64:
        result = _nextafter_double(wide, toward, unit)
    else:
        tiny = 0.75 * 2.0 ** (int(info.minexp) - int(info.nmant))
        step = jnp.maximum(jnp.abs(wide) * (unit * (1 + 2 * unit)), tiny)
        moved = wide + jnp.where(toward > wide, step, -step)
        result = moved.astype(x.dtype)
    largest = jnp.where(x < 0, -info.max, info.max).astype(x.dtype)
    result = jnp.where(jnp.isinf(x), largest, result)
    result = jnp.where(x != y, result, y)
    return jnp.where((x != x) | (y != y), np.nan, result).astype(x.dtype)


@rules.lower("nextafter")
def nextafter_by_bits(ctx: Context, x: Value, y: Value) -> Value:
    """The neighbours of floats by their bits, for targets without double precision."""
    if widest(ctx) == np.float64:
        ctx.pass_on(f"{ctx.target.name} has double precision")
    return ctx.jax(_next_bits, x, y)


def _next_bits(x: Array, y: Array) -> Array:
    """The number whose bit pattern comes next to that of `x`: one more away from zero, one less towards it."""
    form = _format(x.dtype)
    kind = _unsigned_of_width(form.bits)
    bits = lax.bitcast_convert_type(jnp.where(x == 0, 0, x), kind)
    smallest = lax.bitcast_convert_type(jnp.where(y < 0, kind.type(form.sign + 1), kind.type(1)), x.dtype)
    away = (y > x) == (x > 0)
    moved = lax.bitcast_convert_type(jnp.where(away, bits + kind.type(1), bits - kind.type(1)), x.dtype)
    result = jnp.where(x == 0, smallest, moved)
    result = jnp.where(x != y, result, y)
    return jnp.where((x != x) | (y != y), np.nan, result)


def _nextafter_double(x: Array, y: Array, unit: float) -> Array:
    """The neighbour in float64. `unit` is 2^-53.

    Small numbers are scaled up, so that the step is no subnormal product; scaling back rounds to the neighbour.
    """
    small = jnp.abs(x) < 2.0**-900
    scale = jnp.where(small, 2.0**200, 1.0)
    scaled = x * scale
    tiny = jnp.where(small, 0.75 * 2.0 ** (200 - 1074), 0.0)
    step = jnp.maximum(jnp.abs(scaled) * (unit * (1 + 2 * unit)), tiny)
    moved = scaled + jnp.where(y > x, step, -step)
    return moved * jnp.where(small, 2.0**-200, 1.0)
