"""Rules that lower ripple's layer and its primitive to ONNX operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites, Context, Rules, Value

if TYPE_CHECKING:
    from ripple import Damping  # a plugin imports its library only for its types

rules = Rules()
composites = Composites()


@rules.lower("ripple_sawtooth")
def sawtooth(ctx: Context, x: Value) -> Value:
    return ctx.op.Sub(x, ctx.op.Floor(x))


@composites.call("ripple:Damping.__call__", name="ripple.damping")
def damping(self: Damping, x: jax.Array) -> Call:
    return Call(x, self.scale)


@rules.lower("ripple.damping")
def lower_damping(ctx: Context, x: Value, scale: Value) -> Value:
    ctx.require("Softsign", x)  # or decline: then what the layer itself computes is lowered
    if ctx.dtype(x) != ctx.dtype(scale):
        ctx.decline("the operands have different types")
    return ctx.op.Mul(ctx.op.Softsign(x), scale)
