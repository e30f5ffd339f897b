"""Comparison of numbers, booleans and random keys, and the total order of floats."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Rules, Value

from jax2onnx_lax._numerics import sign_bit
from jax2onnx_lax.dtypes import is_bool, is_float

__all__ = ["rules"]

rules = Rules()

rules.elementwise({"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"})


@rules.lower("ne")
def not_equal(ctx: Context, x: Value, y: Value) -> Value:
    """Lower `ne` as Equal and Not, and as Xor for booleans."""
    if is_bool(ctx.dtype(x)):
        return ctx.op.Xor(x, y)
    return ctx.op.Not(ctx.op.Equal(x, y, dims=ctx.avals_out[0].shape))


@rules.lower("lt", "le", "gt", "ge")
def compare_booleans(ctx: Context, x: Value, y: Value) -> Value:
    """False < True."""
    if not is_bool(ctx.dtype(x)):
        ctx.pass_on("not booleans")
    if ctx.primitive in ("gt", "le"):
        x, y = y, x
    less = ctx.op.And(ctx.op.Not(x), y)
    return less if ctx.primitive in ("lt", "gt") else ctx.op.Not(less)


@rules.decompose("le")
def less_or_equal(x: Array, y: Array) -> Array:
    """Lower `le` for targets without LessOrEqual."""
    return lax.lt(x, y) | lax.eq(x, y)


@rules.decompose("ge")
def greater_or_equal(x: Array, y: Array) -> Array:
    """Lower `ge` for targets without GreaterOrEqual."""
    return lax.gt(x, y) | lax.eq(x, y)


@rules.lower("eq", "ne", physical=True)
def compare_keys(ctx: Context, x: Value, y: Value) -> Value:
    """Typed random keys are equal if all their words are."""
    if not jnp.issubdtype(ctx.avals_in[0].dtype, jax.dtypes.prng_key):
        ctx.pass_on("not keys")
    words = ctx.ints(range(len(ctx.avals_out[0].shape), len(ctx.known_dims(x))))
    equal = ctx.op.ReduceMin(ctx.cast(ctx.op.Equal(x, y), np.int32), words, keepdims=0)
    return ctx.op.Equal(equal, ctx.constant(1 if ctx.primitive == "eq" else 0, np.int32))


@rules.decompose("eq_to")
def total_equal(x: Array, y: Array) -> Array:
    """Equality in the total order: -0.0 and 0.0 differ, NaN equals NaN whatever its sign and payload."""
    if not is_float(x.dtype):
        return lax.eq(x, y)
    return (lax.ne(x, x) & lax.ne(y, y)) | ((x == y) & (sign_bit(x) == sign_bit(y)))


@rules.decompose("lt_to")
def total_less(x: Array, y: Array) -> Array:
    """`x < y` in the total order: -0.0 before 0.0, NaN last."""
    if not is_float(x.dtype):
        return lax.lt(x, y)
    zeros = (x == 0) & (y == 0) & sign_bit(x) & ~sign_bit(y)
    return (x < y) | zeros | (lax.eq(x, x) & lax.ne(y, y))


@rules.decompose("le_to")
def total_less_or_equal(x: Array, y: Array) -> Array:
    """`x <= y` in the total order: -0.0 before 0.0, NaN last."""
    if not is_float(x.dtype):
        return lax.le(x, y)
    return total_less(x, y) | total_equal(x, y)
