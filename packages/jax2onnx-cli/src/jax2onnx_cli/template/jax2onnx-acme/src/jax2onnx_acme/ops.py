"""The operations of acme in ONNX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites, Context, Rules, Value

rules = Rules()
composites = Composites()


# A primitive of the library: the rule takes the operands as ONNX values, and the parameters of the equation.
@rules.lower("acme_sawtooth")
def lower_sawtooth(ctx: Context, x: Value, *, period: float) -> Value:
    if period == 1:
        return ctx.op.Sub(x, ctx.op.Floor(x))
    size = ctx.constant(period, like=x)
    return ctx.op.Sub(x, ctx.op.Mul(ctx.op.Floor(ctx.op.Div(x, size)), size))


def damping(x: jax.Array, scale: jax.Array) -> jax.Array:
    """`x / (1 + |x|) · scale`. This stands for a function of your library, which is not here but there."""
    return x / (1 + jnp.abs(x)) * scale


# A call of "module:function" becomes one operation with these operands. A library that the user's program has not imported
# is not imported: it is named by a string.
@composites.call("jax2onnx_acme.ops:damping", name="acme.damping")
def damping_call(x: jax.Array, scale: jax.Array) -> Call:
    return Call(x, scale)


# The operation in ONNX. Where the rule declines, what the function computes in JAX is exported.
@rules.lower("acme.damping")
def lower_damping(ctx: Context, x: Value, scale: Value) -> Value:
    ctx.require("Softsign", x)
    if ctx.dtype(x) != ctx.dtype(scale):
        ctx.decline("the operands have different types")
    return ctx.op.Mul(ctx.op.Softsign(x), scale)
