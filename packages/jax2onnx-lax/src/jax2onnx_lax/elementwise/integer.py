"""Integer arithmetic as XLA's CPU defines it: division by zero, overflow, shifts by any amount, bit counts.

Division: x / 0 is all ones (-1), MIN / -1 wraps to MIN; the remainder has the dividend's sign and x % 0 is x.
ONNX leaves division by zero undefined, so divisors are made safe unless they are known. Shifts by the width
or more (negative amounts included, which are huge as unsigned numbers) give 0, or the sign.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Rules, Value
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.dtypes import Dtype, is_float, is_signed
from jax2onnx_lax.elementwise.arithmetic import uniform
from jax2onnx_lax.integers._values import integers, is_in_range

__all__ = ["rules", "unsigned", "width"]

rules = Rules()

_NARROW = {2: ml_dtypes.uint2, 4: ml_dtypes.uint4}


def width(dtype: DtypeLike) -> int:
    """Number of bits of an integer dtype."""
    return int(jnp.iinfo(dtype).bits)


def unsigned(dtype: DtypeLike) -> Dtype:
    """The unsigned integer dtype of the same width as an integer one."""
    bits = width(dtype)
    return np.dtype(f"uint{bits}") if bits >= 8 else np.dtype(_NARROW[bits])


# ---------------------------------------------------------------------------------------- division


def _is_safe_divisor(ctx: Context, y: Value) -> bool:
    """Whether `y` is known to be neither 0 nor, if signed, -1."""
    known = ctx.known(y)
    if known is None or (known == 0).any():
        return False
    return not is_signed(ctx.dtype(y)) or not (known == -1).any()


def _is_one(ctx: Context, x: Value) -> bool:
    """Whether `x` is the number 1: some runtimes take (1 / y) z for z / y, of integers too."""
    known = ctx.known(x)
    return known is not None and known.size == 1 and bool((known == 1).all())


def _quotient(ctx: Context, x: Value, y: Value) -> Value:
    """x / y truncated; MIN for MIN / -1, and any number for x / 0."""
    if _is_one(ctx, x):
        units = [ctx.op.Equal(y, ctx.constant(unit, like=y)) for unit in ((1, -1) if is_signed(ctx.dtype(y)) else (1,))]
        return ctx.op.Where(functools.reduce(ctx.op.Or, units), y, ctx.constant(0, like=y))
    if _is_safe_divisor(ctx, y):
        return ctx.op.Div(x, y)
    zero = ctx.constant(0, like=y)
    unsafe = ctx.op.Equal(y, zero)
    if is_signed(ctx.dtype(x)):
        lowest = ctx.constant(jnp.iinfo(ctx.dtype(x)).min, like=x)
        overflow = ctx.op.And(ctx.op.Equal(x, lowest), ctx.op.Equal(y, ctx.constant(-1, like=y)))
        unsafe = ctx.op.Or(unsafe, overflow)
    return ctx.op.Div(x, ctx.op.Where(unsafe, ctx.constant(1, like=y), y))


@rules.lower("div")
def div(ctx: Context, x: Value, y: Value) -> Value:
    """The quotient of floats, or that of integers truncated toward zero; x / 0 of integers is all ones."""
    if is_float(ctx.dtype(x)):
        known = ctx.known(x)
        one = known is not None and known.size == 1 and known.ndim == 0 and known == 1
        return ctx.op.Reciprocal(y) if one else ctx.op.Div(x, y)
    y = uniform(ctx, y, x)
    if _is_safe_divisor(ctx, y) and not _is_one(ctx, x):
        return ctx.op.Div(x, y)
    by_zero = ctx.op.Equal(y, ctx.constant(0, like=y))
    all_ones = -1 if is_signed(ctx.dtype(x)) else int(jnp.iinfo(ctx.dtype(x)).max)
    return ctx.op.Where(by_zero, ctx.constant(all_ones, like=x), _quotient(ctx, x, y))


@rules.lower("rem")
def rem(ctx: Context, x: Value, y: Value) -> Value:
    """The remainder with the dividend's sign: x - (x / y) y, which is x for y = 0 whatever the quotient is.

    Mod with fmod=1 serves floats, and known divisors up to 32 bits; the 64-bit one may go through float64.
    """
    dtype = ctx.dtype(x)
    if is_float(dtype):
        return ctx.op.Mod(x, y, fmod=1)
    if is_in_range(ctx, x, 0, integers(ctx, y).low - 1) and ctx.dims(x) == ctx.avals_out[0].shape:
        return x
    y = uniform(ctx, y, x)
    if _is_safe_divisor(ctx, y):
        if not is_signed(dtype):
            return ctx.op.Mod(x, y)
        if width(dtype) <= 32:
            return ctx.op.Mod(x, y, fmod=1)
    return ctx.op.Sub(x, ctx.op.Mul(_quotient(ctx, x, y), y))


@rules.decompose("mulhi")
def mulhi(x: Array, y: Array) -> Array:
    """The high half of the product of two integers in twice their width."""
    bits = width(x.dtype)
    if bits == 64:
        return _mulhi_in_halves(x, y)
    wide_bits = 32 if bits <= 16 else 64
    wide = np.dtype(f"{'int' if is_signed(x.dtype) else 'uint'}{wide_bits}")
    return lax.shift_right_logical(x.astype(wide) * y.astype(wide), wide.type(bits)).astype(x.dtype)


@rules.lower("mulhi")
def mulhi_without_wider_integers(ctx: Context, x: Value, y: Value) -> Value:
    """The upper half of a product, for targets that do not multiply in twice the width."""
    if width(ctx.dtype(x)) != 32 or ctx.supports("Mul", np.uint64):
        ctx.pass_on(f"{ctx.target.name} multiplies in a wider type")
    return ctx.jax(_mulhi_in_halves, x, y)


def _mulhi_in_halves(x: Array, y: Array) -> Array:
    """The high half of the product of integers of 32 or 64 bits, in their own width."""
    kind = unsigned(x.dtype)
    high = _mulhi_unsigned(x.astype(kind), y.astype(kind))
    if is_signed(x.dtype):
        # Modulo 2^bits, a negative factor counted as 2^bits more adds the other one to the high half.
        zero = jnp.zeros_like(high)
        high = high - jnp.where(x < 0, y.astype(kind), zero) - jnp.where(y < 0, x.astype(kind), zero)
    return high.astype(x.dtype)


def _mulhi_unsigned(x: Array, y: Array) -> Array:
    """The high half for unsigned integers: schoolbook multiplication of halves, whose partial sums fit into the width."""
    number = x.dtype.type
    half = number(width(x.dtype) // 2)
    low_mask = number((1 << int(half)) - 1)
    x_low, x_high, y_low, y_high = x & low_mask, x >> half, y & low_mask, y >> half
    carry = (x_low * y_low) >> half
    middle = x_high * y_low + carry
    other = x_low * y_high + (middle & low_mask)
    return x_high * y_high + (middle >> half) + (other >> half)


# ---------------------------------------------------------------------------------------- shifts


def _amount_in_range(ctx: Context, amount: Value, bits: int) -> tuple[Value, Value | None]:
    """The amount modulo `bits`, unsigned, and a bool tensor of where it was out of range (None: nowhere)."""
    kind = unsigned(ctx.dtype(amount))
    known = ctx.known(amount)
    if known is not None and ((known >= 0) & (known < bits)).all():
        # NumPy casts no scalar from one type of 4 bits to another.
        return ctx.constant(known.astype(np.int64).astype(kind)), None
    amount = ctx.cast(amount, kind)
    beyond = ctx.op.GreaterOrEqual(amount, ctx.constant(bits, like=amount))
    return ctx.op.BitwiseAnd(amount, ctx.constant(bits - 1, like=amount)), beyond


def _shift(ctx: Context, x: Value, amount: Value, direction: Literal["LEFT", "RIGHT"]) -> Value:
    """Logical shift of an unsigned value; 0 where the amount is out of range."""
    inside, beyond = _amount_in_range(ctx, uniform(ctx, amount, x), width(ctx.dtype(x)))
    shifted = ctx.op.BitShift(x, inside, direction=direction)
    if beyond is None:
        return shifted
    return ctx.op.Where(beyond, ctx.constant(0, like=x), shifted)


@rules.lower("shift_left")
def shift_left(ctx: Context, x: Value, amount: Value) -> Value:
    """x 2^amount modulo 2^width; a known shift of a signed value is a multiplication, which wraps."""
    amount = uniform(ctx, amount, x)
    dtype, known = ctx.dtype(x), ctx.known(amount)
    if is_signed(dtype) and known is not None and ((known >= 0) & (known < width(dtype))).all():
        power = np.left_shift(np.ones_like(known, np.int64), known.astype(np.int64))
        return ctx.op.Mul(x, ctx.constant(power.astype(dtype)))
    return ctx.cast(_shift(ctx, ctx.cast(x, unsigned(dtype)), amount, "LEFT"), dtype)


@rules.lower("shift_right_logical")
def shift_right_logical(ctx: Context, x: Value, amount: Value) -> Value:
    """Shift right and fill with zeros, signed values too."""
    dtype = ctx.dtype(x)
    return ctx.cast(_shift(ctx, ctx.cast(x, unsigned(dtype)), amount, "RIGHT"), dtype)


@rules.lower("shift_right_arithmetic")
def shift_right_arithmetic(ctx: Context, x: Value, amount: Value) -> Value:
    """Shift right and fill with the highest bit, of unsigned values too: where it is set, the complement is shifted."""
    dtype = ctx.dtype(x)
    bits = ctx.cast(x, unsigned(dtype))
    zero = ctx.constant(0, like=bits)
    sign = ctx.op.BitShift(bits, ctx.constant(width(dtype) - 1, like=bits), direction="RIGHT")
    flip = ctx.op.Sub(zero, sign)
    shifted = _shift(ctx, ctx.op.BitwiseXor(bits, flip), amount, "RIGHT")
    return ctx.cast(ctx.op.BitwiseXor(shifted, flip), dtype)


# ---------------------------------------------------------------------------------------- bit counts


@rules.decompose("population_count")
def population_count(x: Array) -> Array:
    """Number of ones, by sums of ever wider groups of bits (H. S. Warren, "Hacker's Delight", 5-1)."""
    bits, kind = width(x.dtype), unsigned(x.dtype)
    if bits < 8:
        return population_count(x.astype(kind).astype(np.uint8)).astype(x.dtype)
    v = x.astype(kind)
    ones = (1 << bits) - 1

    def mask(group: int) -> np.generic:
        """Every second group of bits."""
        return kind.type(ones // ((1 << 2 * group) - 1) * ((1 << group) - 1))

    v = v - ((v >> kind.type(1)) & mask(1))
    v = (v & mask(2)) + ((v >> kind.type(2)) & mask(2))
    v = (v + (v >> kind.type(4))) & mask(4)
    if bits > 8:
        v = (v * kind.type(ones // 255)) >> kind.type(bits - 8)
    return v.astype(x.dtype)


@rules.decompose("clz")
def clz(x: Array) -> Array:
    """Number of leading zeros: the width minus the ones after the highest one was copied to all lower places."""
    bits, kind = width(x.dtype), unsigned(x.dtype)
    v = x.astype(kind)
    step = 1
    while step < bits:
        v = v | lax.shift_right_logical(v, jnp.full_like(v, step))
        step *= 2
    return (kind.type(bits) - lax.population_count(v)).astype(x.dtype)
