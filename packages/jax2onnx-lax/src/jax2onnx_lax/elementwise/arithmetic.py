"""Arithmetic, comparison, logic and selection, element by element.

ONNX's arithmetic and JAX's differ in corners (integer division by zero, the sign of NaN, booleans as
numbers); each rule below says which corner it is about. What is one operator is one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Rules

from jax2onnx_lax.indexing.index_analysis import one_value
from jax2onnx_lax.special.elementary import sign_bit

__all__ = ["is_float", "is_integer", "rules", "uniform"]

rules = Rules()

# name: operator. Where a target has no exact kernel, a decomposition in special_*.py takes over.
rules.elementwise({
    "add": "Add", "add_any": "Add", "sub": "Sub", "mul": "Mul",
    "exp": "Exp", "log": "Log", "logistic": "Sigmoid", "tanh": "Tanh", "sqrt": "Sqrt",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "abs": "Abs", "neg": "Neg", "floor": "Floor", "ceil": "Ceil", "max": "Max", "min": "Min",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
})  # fmt: skip


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a floating-point one, those of ml_dtypes included."""
    return bool(np.dtype(dtype) in _FLOATS or "float" in np.dtype(dtype).name)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is an integer one, int4 and the like included (bool is not)."""
    return not is_float(dtype) and "int" in np.dtype(dtype).name


_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))


def _is_bool(ctx: Any, value: Any) -> bool:
    return bool(ctx.dtype(value) == np.dtype(bool))


def uniform(ctx: Any, value: Any, x: Any) -> Any:
    """`value` as a scalar constant where it is one broadcast to the dimensions of `x`, else `value`."""
    if ctx.dims(value) == () or ctx.dims(value) != ctx.dims(x):
        return value
    scalar = one_value(ctx, value)
    return value if scalar is None or ctx.known(scalar) is None else scalar


# ---------------------------------------------------------------------------------------- booleans as numbers


@rules.lower("and", "or", "xor")
def logic(ctx: Any, x: Any, y: Any) -> Any:
    """Logical on booleans, bitwise on integers."""
    name = {"and": "And", "or": "Or", "xor": "Xor"}[ctx.primitive]
    return ctx.op(name if _is_bool(ctx, x) else f"Bitwise{name}", x, y)


@rules.lower("not")
def invert(ctx: Any, x: Any) -> Any:
    return ctx.op.Not(x) if _is_bool(ctx, x) else ctx.op.BitwiseNot(x)


@rules.lower("ne")
def not_equal(ctx: Any, x: Any, y: Any) -> Any:
    return ctx.op.Xor(x, y) if _is_bool(ctx, x) else ctx.op.Not(ctx.op.Equal(x, y))


@rules.lower("lt", "le", "gt", "ge")
def order_of_booleans(ctx: Any, x: Any, y: Any) -> Any:
    """False < True."""
    if not _is_bool(ctx, x):
        ctx.decline("not booleans")
    if ctx.primitive in ("gt", "le"):
        x, y = y, x
    less = ctx.op.And(ctx.op.Not(x), y)
    return less if ctx.primitive in ("lt", "gt") else ctx.op.Not(less)


@rules.lower("max", "add", "add_any")
def either(ctx: Any, x: Any, y: Any, **_: Any) -> Any:
    if not _is_bool(ctx, x):
        ctx.decline("not booleans")
    return ctx.op.Or(x, y)


@rules.lower("min", "mul")
def both(ctx: Any, x: Any, y: Any, **_: Any) -> Any:
    if not _is_bool(ctx, x):
        ctx.decline("not booleans")
    return ctx.op.And(x, y)


# ---------------------------------------------------------------------------------------- arithmetic


@rules.lower("neg")
def negate_unsigned(ctx: Any, x: Any) -> Any:
    """Modulo 2^n; ONNX's Neg takes signed types only."""
    if not np.issubdtype(ctx.dtype(x), np.unsignedinteger):
        ctx.decline("signed")
    return ctx.op.Sub(ctx.constant(0, like=x), x)


@rules.lower("stop_gradient")
def stop_gradient(ctx: Any, x: Any, **_: Any) -> Any:
    return x


@rules.lower("square")
def square(ctx: Any, x: Any) -> Any:
    return ctx.op.Mul(x, x)


@rules.decompose("one_minus_square")
def one_minus_square(x: Array) -> Array:
    """(1 - x)(1 + x): 1 - x^2 loses its digits near 1."""
    return (1 - x) * (1 + x)


@rules.decompose("polynomial")
def polynomial(x: Array, *coefficients: Array, **_: Any) -> Array:
    """Horner's scheme; coefficients from the constant term up."""
    result = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


@rules.lower("rsqrt")
def rsqrt(ctx: Any, x: Any, **_: Any) -> Any:
    return ctx.op.Reciprocal(ctx.op.Sqrt(x))


@rules.decompose("exp2")
def exp2(x: Array, **_: Any) -> Array:
    """exp(log(2) x) with log(2) rounded to the dtype, as JAX computes it."""
    return lax.exp(x * np.asarray(np.log(2), x.dtype))


@rules.lower("pow")
def power(ctx: Any, x: Any, y: Any) -> Any:
    """An integer exponent is converted first, as JAX does; constant exponents take cheaper forms."""
    y = uniform(ctx, y, x)
    exponent = ctx.known(y) if ctx.dims(y) == () else None
    crisp = None if exponent is None else _constant_power(ctx, x, float(exponent))
    return ctx.op.Pow(x, ctx.cast(y, ctx.dtype(x))) if crisp is None else crisp


def _constant_power(ctx: Any, x: Any, y: float) -> Any:
    if y == 2:
        return ctx.op.Mul(x, x)
    if y == -1:
        return ctx.op.Reciprocal(x)
    return x if y == 1 else None


@rules.lower("integer_pow")
def integer_pow(ctx: Any, x: Any, *, y: int) -> Any:
    """Repeated squaring, in JAX's order of multiplications, so that integers wrap and floats round alike."""
    if y == 0:
        return ctx.broadcast(ctx.constant(1, like=x), ctx.dims(x))
    if y == 3:
        return ctx.op.Mul(ctx.op.Mul(x, x), x)
    result, square, rest = None, x, abs(y)
    while rest:
        if rest & 1:
            result = square if result is None else ctx.op.Mul(result, square)
        rest >>= 1
        if rest:
            square = ctx.op.Mul(square, square)
    return result if y > 0 else ctx.op.Reciprocal(result)


@rules.decompose("max")
def maximum(x: Array, y: Array) -> Array:
    """For integers whose kernel is missing or wrong."""
    return jnp.where(x > y, x, y)


@rules.decompose("min")
def minimum(x: Array, y: Array) -> Array:
    return jnp.where(x < y, x, y)


@rules.lower("sign")
def sign(ctx: Any, x: Any) -> Any:
    """ONNX Runtime's float16 kernel maps NaN to 0, so half precision goes through float32."""
    dtype = ctx.dtype(x)
    if is_float(dtype) and dtype.itemsize < 4:
        return ctx.cast(ctx.op.Sign(ctx.cast(x, np.float32)), dtype)
    if not ctx.supports("Sign", dtype):
        ctx.decline(f"{ctx.target} has no exact Sign for {dtype}")
    return ctx.op.Sign(x)


@rules.decompose("sign")
def sign_by_comparison(x: Array) -> Array:
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


@rules.lower("round")
def round_(ctx: Any, x: Any, *, rounding_method: lax.RoundingMethod) -> Any:
    """ONNX's Round takes halves to even; away from zero is floor(|x|), one more from a half on."""
    if rounding_method == lax.RoundingMethod.TO_NEAREST_EVEN:
        return ctx.op.Round(x)
    return ctx.jax(_round_away_from_zero, x)


def _round_away_from_zero(x: Array) -> Array:
    a = lax.abs(x)
    whole = lax.floor(a)
    magnitude = whole + (a - whole >= 0.5).astype(x.dtype)
    return magnitude * jnp.where(x < 0, -1, 1).astype(x.dtype)


@rules.lower("is_finite")
def is_finite(ctx: Any, x: Any) -> Any:
    return ctx.op.Less(ctx.op.Abs(x), ctx.constant(np.inf, like=x))


# ---------------------------------------------------------------------------------------- total order of floats


@rules.decompose("eq_to")
def total_equal(x: Array, y: Array) -> Array:
    """-0.0 and 0.0 differ, NaN equals NaN (its sign and payload are not looked at)."""
    return (lax.ne(x, x) & lax.ne(y, y)) | ((x == y) & (sign_bit(x) == sign_bit(y)))


@rules.decompose("lt_to")
def total_less(x: Array, y: Array) -> Array:
    """-0.0 before 0.0, NaN last."""
    zeros = (x == 0) & (y == 0) & sign_bit(x) & ~sign_bit(y)
    return (x < y) | zeros | (lax.eq(x, x) & lax.ne(y, y))


@rules.decompose("le_to")
def total_less_or_equal(x: Array, y: Array) -> Array:
    return total_less(x, y) | total_equal(x, y)


# ---------------------------------------------------------------------------------------- selection


@rules.lower("select_n")
def select_n(ctx: Any, which: Any, *cases: Any) -> Any:
    """Integer predicates out of range take the nearest case, as in XLA."""
    if len(cases) == 1:
        return cases[0]
    if _is_bool(ctx, which):
        return ctx.op.Where(which, cases[1], cases[0])
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = ctx.op.Where(ctx.op.LessOrEqual(which, ctx.constant(i, like=which)), cases[i], result)
    return result


@rules.lower("clamp")
def clamp(ctx: Any, low: Any, x: Any, high: Any) -> Any:
    """Clip where the bounds are scalars; it ignores a NaN bound, so that has to be known away."""
    if _is_bool(ctx, x):
        return ctx.op.And(ctx.op.Or(x, low), high)
    if ctx.supports("Clip", ctx.dtype(x)) and _plain_scalars(ctx, (low, high)):
        return ctx.op.Clip(x, low, high)
    return ctx.jax(_clamp, x, low, high)


def _clamp(x: Array, low: Array, high: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, low), high)


def _plain_scalars(ctx: Any, bounds: Sequence[Any]) -> bool:
    for bound in bounds:
        value = ctx.known(bound)
        if ctx.dims(bound) != () or (is_float(ctx.dtype(bound)) and (value is None or np.isnan(value))):
            return False
    return True
