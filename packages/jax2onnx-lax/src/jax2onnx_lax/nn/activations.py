"""Activations of `jax.nn` as ONNX's own operators.

Not here, because their primitives already are the best graph: `sigmoid` and `tanh` (one operator),
`silu` (`x · Sigmoid(x)`, which ONNX Runtime runs 3.4 times as fast as `Swish`), `squareplus`, and
`one_hot` (`OneHot` wraps negative indices, JAX gives a row of zeros; `Equal` with a constant and `Cast` is exact).
"""

from __future__ import annotations

__all__ = ["composites", "is_float", "needs", "rules"]

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Rules

composites = Composites()
rules = Rules()


def is_float(*arrays: Any) -> bool:
    """Whether all are real floating-point arrays (traced or not), so that no promotion takes place."""
    return all(isinstance(x, jax.Array | np.ndarray) and jnp.issubdtype(x.dtype, jnp.floating) for x in arrays)


def needs(ctx: Any, op_type: str, value: Any, *, opset: int = 18) -> None:
    """Decline where the target cannot run `op_type` on the element type of `value`, or the opset lacks it."""
    if ctx.opset < opset:
        ctx.decline(f"{op_type} exists from opset {opset}, this is {ctx.opset}")
    if not ctx.supports(op_type, ctx.dtype(value)):
        ctx.decline(f"{ctx.target} has no exact {op_type} for {ctx.dtype(value)}")


def _unary(function: str, op_type: str, **attributes: float) -> None:
    """`jax.nn.<function>(x)` of a float array is one operator."""
    name = f"jax.nn.{function}"

    @composites.call(f"jax.nn:{function}", name=name, keep_under_vmap=True)
    def call(x: Any) -> Call | None:
        return Call(x) if is_float(x) else None

    @rules.lower(name)
    def lower(ctx: Any, x: Any) -> Any:
        needs(ctx, op_type, x)
        return ctx.op(op_type, x, **attributes)


_unary("relu", "Relu")
_unary("softplus", "Softplus")
_unary("soft_sign", "Softsign")
_unary("mish", "Mish")
_unary("hard_sigmoid", "HardSigmoid", alpha=1 / 6, beta=0.5)
_unary("hard_silu", "HardSwish")
_unary("selu", "Selu", alpha=1.6732632423543772848170429916717, gamma=1.0507009873554804934193349852946)


def _with_slope(function: str, op_type: str, parameter: str, default: float) -> None:
    """`jax.nn.<function>(x, <parameter>)` is one operator whose attribute alpha is the parameter."""
    name = f"jax.nn.{function}"

    @composites.call(f"jax.nn:{function}", name=name, keep_under_vmap=True)
    def call(x: Any, *args: Any, **kwargs: Any) -> Call | None:
        alpha = args[0] if args else kwargs.get(parameter, default)
        return Call(x, alpha=float(alpha)) if is_float(x) and isinstance(alpha, int | float) else None

    @rules.lower(name)
    def lower(ctx: Any, x: Any, *, alpha: float) -> Any:
        needs(ctx, op_type, x)
        return ctx.op(op_type, x, alpha=alpha)


_with_slope("elu", "Elu", "alpha", 1.0)
_with_slope("celu", "Celu", "alpha", 1.0)
_with_slope("leaky_relu", "LeakyRelu", "negative_slope", 1e-2)


def _clip(function: str, low: float, high: float) -> None:
    """`jax.nn.<function>(x)` of a float array is `Clip`, which keeps NaN."""
    name = f"jax.nn.{function}"

    @composites.call(f"jax.nn:{function}", name=name, keep_under_vmap=True)
    def call(x: Any) -> Call | None:
        return Call(x) if is_float(x) else None

    @rules.lower(name)
    def lower(ctx: Any, x: Any) -> Any:
        needs(ctx, "Clip", x)
        return ctx.op.Clip(x, ctx.constant(low, like=x), ctx.constant(high, like=x))


_clip("relu6", 0.0, 6.0)
_clip("hard_tanh", -1.0, 1.0)


@composites.call("jax.nn:log_sigmoid", name="jax.nn.log_sigmoid", keep_under_vmap=True)
def log_sigmoid(x: Any) -> Call | None:
    return Call(x) if is_float(x) else None


@rules.lower("jax.nn.log_sigmoid")
def lower_log_sigmoid(ctx: Any, x: Any) -> Any:
    """`-softplus(-x)`: the logarithm of the sigmoid itself would underflow."""
    needs(ctx, "Softplus", x)
    return ctx.op.Neg(ctx.op.Softplus(ctx.op.Neg(x)))


@composites.call("jax.nn:gelu", name="jax.nn.gelu", keep_under_vmap=True)
def gelu(x: Any, approximate: bool = True) -> Call | None:
    return Call(x, approximate=bool(approximate)) if is_float(x) else None


@rules.lower("jax.nn.gelu")
def lower_gelu(ctx: Any, x: Any, *, approximate: bool) -> Any:
    needs(ctx, "Gelu", x, opset=20)
    if ctx.dtype(x) == np.float64:
        # ONNX expands Gelu with constants rounded to float32: 5e-9 off in double precision.
        ctx.decline("Gelu in double precision is not accurate to it")
    return ctx.op.Gelu(x, approximate="tanh" if approximate else "none")


@rules.lower("jax.nn.gelu")
def lower_gelu_erf(ctx: Any, x: Any, *, approximate: bool) -> Any:
    """Exact gelu before opset 20, in the form that ONNX Runtime fuses."""
    if approximate or ctx.opset >= 20:
        ctx.decline("the primitives are as good")
    needs(ctx, "Erf", x)
    one, half = ctx.constant(1.0, like=x), ctx.constant(0.5, like=x)
    erf = ctx.op.Erf(ctx.op.Div(x, ctx.constant(math.sqrt(2.0), like=x)))
    return ctx.op.Mul(ctx.op.Mul(x, ctx.op.Add(erf, one)), half)


@composites.call("jax.nn:glu", name="jax.nn.glu", keep_under_vmap=True)
def glu(x: Any, axis: int = -1) -> Call | None:
    if not is_float(x) or not isinstance(axis, int) or not isinstance(x.shape[axis], int):
        return None
    return Call(x, axis=axis if axis < 0 else axis - x.ndim)


@rules.lower("jax.nn.glu")
def lower_glu(ctx: Any, x: Any, *, axis: int) -> Any:
    """One `Split` instead of two `Slice`s."""
    value, gate = ctx.op("Split", x, outputs=2, axis=axis, num_outputs=2)
    return ctx.op.Mul(value, ctx.op.Sigmoid(gate))
