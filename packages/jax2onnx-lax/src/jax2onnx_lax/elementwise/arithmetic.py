"""Arithmetic, logic, rounding and selection, element by element.

A primitive that is one ONNX operator is one line of the table. The other rules are about corners in which ONNX's
arithmetic and JAX's differ: booleans as numbers, integer powers, the sign of NaN, bounds that are NaN.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Rules, Value
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._numerics import horner, sign_bit
from jax2onnx_lax.dtypes import is_bool, is_float
from jax2onnx_lax.integers._values import integers, one_value

__all__ = ["one_minus_square", "polynomial", "rules", "uniform"]

rules = Rules()

# Where the target has no exact kernel, a decomposition of the room `special` takes over.
rules.elementwise({
    "add": "Add", "add_any": "Add", "sub": "Sub", "mul": "Mul",
    "exp": "Exp", "log": "Log", "logistic": "Sigmoid", "tanh": "Tanh", "sqrt": "Sqrt",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "abs": "Abs", "neg": "Neg", "floor": "Floor", "ceil": "Ceil", "max": "Max", "min": "Min",
})  # fmt: skip


def uniform(ctx: Context, value: Value, x: Value) -> Value:
    """A scalar constant in place of a constant whose elements are all equal, as broadcasting makes it; any other value itself.

    Args:
      ctx: the context of the rule.
      value: an operand of the shape of `x`.
      x: the other operand.
    """
    if ctx.dims(value) == () or ctx.dims(value) != ctx.dims(x):
        return value
    scalar = one_value(ctx, value)
    return value if scalar is None or ctx.known(scalar) is None else scalar


# ---------------------------------------------------------------------------------------- booleans


@rules.lower("and", "or", "xor")
def logic(ctx: Context, x: Value, y: Value) -> Value:
    """Logical on booleans, bitwise on integers."""
    name = {"and": "And", "or": "Or", "xor": "Xor"}[ctx.primitive]
    return ctx.op(name if is_bool(ctx.dtype(x)) else f"Bitwise{name}", x, y)


@rules.lower("not")
def invert(ctx: Context, x: Value) -> Value:
    """Logical on booleans, bitwise on integers."""
    return ctx.op.Not(x) if is_bool(ctx.dtype(x)) else ctx.op.BitwiseNot(x)


@rules.lower("max", "add", "add_any")
def either(ctx: Context, x: Value, y: Value, **_: object) -> Value:
    """The maximum or sum of booleans is Or."""
    if not is_bool(ctx.dtype(x)):
        ctx.pass_on("not booleans")
    return ctx.op.Or(x, y)


@rules.lower("min", "mul")
def both(ctx: Context, x: Value, y: Value, **_: object) -> Value:
    """The minimum or product of booleans is And."""
    if not is_bool(ctx.dtype(x)):
        ctx.pass_on("not booleans")
    return ctx.op.And(x, y)


# ---------------------------------------------------------------------------------------- arithmetic


@rules.lower("mul")
def product_of_another_type(ctx: Context, x: Value, y: Value, *, out_dtype: DtypeLike | None = None) -> Value:
    """The product of the operands converted to `out_dtype`."""
    if out_dtype is None or ctx.dtype(x) == ctx.dtype(y) == np.dtype(out_dtype):
        ctx.pass_on("the product has the type of its operands")
    return ctx.jax(lambda *xs: lax.mul(*(lax.convert_element_type(v, out_dtype) for v in xs)), x, y)


@rules.lower("neg")
def negate_unsigned(ctx: Context, x: Value) -> Value:
    """0 - x modulo 2^n, as ONNX's Neg takes signed types only."""
    if not np.issubdtype(ctx.dtype(x), np.unsignedinteger):
        ctx.pass_on("signed")
    return ctx.op.Sub(ctx.constant(0, like=x), x)


@rules.lower("square")
def square(ctx: Context, x: Value) -> Value:
    """x x."""
    return ctx.op.Mul(x, x)


@rules.decompose("one_minus_square")
def one_minus_square(x: Array) -> Array:
    """(1 - x)(1 + x), as 1 - x^2 loses its digits near 1."""
    return (1 - x) * (1 + x)


@rules.decompose("polynomial")
def polynomial(x: Array, *coefficients: Array | float, **_: object) -> Array:
    """The polynomial in `x`; coefficients from the constant term up."""
    return horner(x, coefficients[::-1])


@rules.lower("rsqrt")
def rsqrt(ctx: Context, x: Value, **_: object) -> Value:
    """1 / sqrt(x)."""
    return ctx.op.Reciprocal(ctx.op.Sqrt(x))


@rules.decompose("exp2")
def exp2(x: Array, **_: object) -> Array:
    """exp(log(2) x) with log(2) rounded to the dtype, as JAX computes it."""
    return lax.exp(x * np.asarray(np.log(2), x.dtype))


@rules.lower("pow")
def power(ctx: Context, x: Value, y: Value) -> Value:
    """x to the power of y; an integer exponent is converted to the base's dtype first, as JAX does."""
    y = uniform(ctx, y, x)
    exponent = ctx.known(y) if ctx.dims(y) == () else None
    short = None if exponent is None else _constant_power(ctx, x, float(exponent))
    return ctx.op.Pow(x, ctx.cast(y, ctx.dtype(x))) if short is None else short


def _constant_power(ctx: Context, x: Value, y: float) -> Value | None:
    """The cheaper form of x^2, x^-1 and x^1; None for other exponents."""
    if y == 2:
        return ctx.op.Mul(x, x)
    if y == -1:
        return ctx.op.Reciprocal(x)
    return x if y == 1 else None


@rules.lower("integer_pow")
def integer_pow(ctx: Context, x: Value, *, y: int) -> Value:
    """Repeated squaring, in JAX's order of multiplications, so that integers wrap and floats round alike."""
    if y == 0:
        return ctx.broadcast(ctx.constant(1, like=x), ctx.known_dims(x))
    if y == 3:
        return ctx.op.Mul(ctx.op.Mul(x, x), x)
    rest, squared = abs(y), x
    while not rest & 1:
        rest, squared = rest >> 1, ctx.op.Mul(squared, squared)
    result = squared
    while rest := rest >> 1:
        squared = ctx.op.Mul(squared, squared)
        if rest & 1:
            result = ctx.op.Mul(result, squared)
    return result if y > 0 else ctx.op.Reciprocal(result)


@rules.decompose("max")
def maximum(x: Array, y: Array) -> Array:
    """The greater one, or the NaN, where the target has no exact Max."""
    return jnp.where(_or_nan(x > y, x), x, y)


@rules.decompose("min")
def minimum(x: Array, y: Array) -> Array:
    """The smaller one, or the NaN, where the target has no exact Min."""
    return jnp.where(_or_nan(x < y, x), x, y)


def _or_nan(chosen: Array, x: Array) -> Array:
    """A mask of the elements where `x` is chosen or NaN."""
    return chosen | jnp.isnan(x) if jnp.issubdtype(x.dtype, jnp.floating) else chosen


@rules.lower("sign")
def sign(ctx: Context, x: Value) -> Value:
    """-1, 0, 1 or NaN. Where the target's Sign loses NaN, half precision goes through float32."""
    dtype = ctx.dtype(x)
    if not is_float(dtype) or ctx.guarantees("Sign", dtype, "nan"):
        ctx.require("Sign", x)
        return ctx.op.Sign(x)
    if dtype.itemsize < 4 and ctx.guarantees("Sign", np.float32, "nan"):
        return ctx.cast(ctx.op.Sign(ctx.cast(x, np.float32)), dtype)
    return ctx.op.Where(ctx.op.IsNaN(x), x, ctx.op.Sign(x))


@rules.decompose("sign")
def sign_by_comparison(x: Array) -> Array:
    """-1, 0 or 1, for numbers of which the target has no exact Sign; zeros of floats keep their signs, and NaN stays."""
    sign = (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)
    return jnp.where((x > 0) | (x < 0), sign, x) if jnp.issubdtype(x.dtype, jnp.floating) else sign


@rules.lower("round")
def round_(ctx: Context, x: Value, *, rounding_method: lax.RoundingMethod) -> Value:
    """Round to the nearest integer; ONNX's Round takes halves to even, the other method is computed."""
    if rounding_method == lax.RoundingMethod.TO_NEAREST_EVEN:
        return ctx.op.Round(x)
    return ctx.jax(_round_away_from_zero, x)


def _round_away_from_zero(x: Array) -> Array:
    """floor(|x|), one more from a half on, with the sign of x, of zeros too."""
    a = lax.abs(x)
    whole = lax.floor(a)
    magnitude = whole + (a - whole >= 0.5).astype(x.dtype)
    return magnitude * jnp.where(sign_bit(x), -1, 1).astype(x.dtype)


@rules.lower("is_finite")
def is_finite(ctx: Context, x: Value) -> Value:
    """|x| < infinity, which NaN is not either."""
    return ctx.op.Less(ctx.op.Abs(x), ctx.constant(np.inf, like=x))


# ---------------------------------------------------------------------------------------- selection


@rules.lower("select_n")
def select_n(ctx: Context, which: Value, *cases: Value) -> Value:
    """The case whose number is `which`; a number out of range takes the nearest case, as in XLA.

    Cases that are one value are that value: so `lax.switch` selects what its branches read, under `vmap`. The case that
    is known to be taken is the result, such as an index that is never negative.
    """
    if all(case is cases[0] for case in cases):
        return cases[0]
    known = integers(ctx, which)
    if is_static(known.low) and is_static(known.high) and known.low == known.high:
        return cases[min(max(int(known.low), 0), len(cases) - 1)]
    if is_bool(ctx.dtype(which)):
        return ctx.op.Where(which, cases[1], cases[0])
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = ctx.op.Where(ctx.op.LessOrEqual(which, ctx.constant(i, like=which)), cases[i], result)
    return result


@rules.lower("clamp")
def clamp(ctx: Context, low: Value, x: Value, high: Value) -> Value:
    """min(max(x, low), high). ONNX's Clip takes scalar bounds and ignores those that are NaN."""
    if is_bool(ctx.dtype(x)):
        return ctx.op.And(ctx.op.Or(x, low), high)
    if ctx.supports("Clip", ctx.dtype(x)) and _is_clip_bound(ctx, low) and _is_clip_bound(ctx, high):
        return ctx.op.Clip(x, low, high)
    return ctx.jax(_clamp, x, low, high)


def _is_clip_bound(ctx: Context, bound: Value) -> bool:
    """Whether `bound` is a scalar that is certainly not NaN."""
    if ctx.dims(bound) != ():
        return False
    if ctx.assumes(Assumption.FINITE):
        return True
    value = ctx.known(bound)
    return not is_float(ctx.dtype(bound)) or (value is not None and not np.isnan(value))


def _clamp(x: Array, low: Array, high: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, low), high)
