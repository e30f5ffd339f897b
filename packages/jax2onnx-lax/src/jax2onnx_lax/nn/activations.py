"""Activations of `jax.nn` as ONNX's own operators.

Not here, because their primitives already are the best graph: `sigmoid` and `tanh` (one operator), `silu`
(`x · Sigmoid(x)`), `squareplus`, and `one_hot` (`OneHot` wraps negative indices, JAX gives a row of zeros; `Equal` with
a constant and `Cast` is exact).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jax2onnx_core import Call, Composites, Context, Replacement, Rules, Value, bind_composite
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.forms import Form

from jax2onnx_lax.dtypes import is_float_array

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()


def _of_floats(function: str) -> str:
    """Declare the composite of `jax.nn.<function>(x)` of a float array, and return its name."""
    name = f"jax.nn.{function}"

    @composites.call(f"jax.nn:{function}", name=name, keep_under_vmap=True)
    def call(x: jax.Array) -> Call | None:
        return Call(x) if is_float_array(x) else None

    return name


def _unary(
    function: str, op_type: str, *, alpha: float | None = None, beta: float | None = None, gamma: float | None = None
) -> None:
    """Declare `jax.nn.<function>(x)` of a float array as one operator with these attributes."""

    @rules.lower(_of_floats(function))
    def lower(ctx: Context, x: Value) -> Value:
        ctx.require(op_type, x)
        if not ctx.guarantees(op_type, ctx.dtype(x), "accurate"):
            ctx.decline(f"{op_type} of {ctx.dtype(x)} is not accurate to it")
        return ctx.op(op_type, x, alpha=alpha, beta=beta, gamma=gamma)


_unary("relu", "Relu")
_unary("softplus", "Softplus")
_unary("soft_sign", "Softsign")
_unary("mish", "Mish")
_unary("hard_sigmoid", "HardSigmoid", alpha=1 / 6, beta=0.5)
_unary("hard_silu", "HardSwish")
_unary("selu", "Selu", alpha=1.6732632423543772848170429916717, gamma=1.0507009873554804934193349852946)


#: Slopes for which the operators are as accurate as formulas: they subtract 1 from an exponential, and infinite slopes make NaN of 0.
_SMALLEST_SLOPE, _LARGEST_SLOPE = 2.0**-14, 16.0


def _with_slope(function: str, op_type: str, parameter: str, default: float) -> None:
    """Declare `jax.nn.<function>(x, <parameter>)` as one operator whose attribute alpha is the parameter."""
    name = f"jax.nn.{function}"

    @composites.call(f"jax.nn:{function}", name=name, keep_under_vmap=(0,))
    def call(x: jax.Array, *args: ArrayLike, **kwargs: ArrayLike) -> Call | None:
        alpha = args[0] if args else kwargs.get(parameter, default)
        return Call(x, alpha) if is_float_array(x) and not np.ndim(alpha) else None

    @rules.lower(name)
    def lower(ctx: Context, x: Value, alpha: Value) -> Value:
        known = ctx.known(alpha)
        if known is None:
            ctx.decline(f"the {parameter} is no constant")
        if not _SMALLEST_SLOPE <= abs(float(known)) <= _LARGEST_SLOPE:
            ctx.decline(f"{op_type} is not accurate where the {parameter} is {float(known):g}")
        ctx.require(op_type, x)
        return ctx.op(op_type, x, alpha=float(known))


_with_slope("elu", "Elu", "alpha", 1.0)
_with_slope("celu", "Celu", "alpha", 1.0)
_with_slope("leaky_relu", "LeakyRelu", "negative_slope", 1e-2)


@rules.lower("nn.prelu")
def prelu(ctx: Context, x: Value, slope: Value) -> Value:
    """A leaky ReLU whose slope is learned: `x` where that is at least 0, else `slope * x`.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      x: the inputs, of any shape.
      slope: an array that broadcasts to the shape of `x`.

    Returns:
      An array of the shape of `x`.
    """
    ctx.require("PRelu", x)
    return ctx.op.PRelu(x, slope)


def _clip(function: str, low: float, high: float) -> None:
    """Declare `jax.nn.<function>(x)` of a float array as `Clip` between two numbers, which keeps NaN."""

    @rules.lower(_of_floats(function))
    def lower(ctx: Context, x: Value) -> Value:
        ctx.require("Clip", x)
        return ctx.op.Clip(x, ctx.constant(low, like=x), ctx.constant(high, like=x))


_clip("relu6", 0.0, 6.0)
_clip("hard_tanh", -1.0, 1.0)


@rules.lower(_of_floats("log_sigmoid"))
def log_sigmoid(ctx: Context, x: Value) -> Value:
    """`-softplus(-x)`: the logarithm of the sigmoid itself would underflow."""
    ctx.require("Softplus", x)
    return ctx.op.Neg(ctx.op.Softplus(ctx.op.Neg(x)))


#: Of fewer elements one operator is faster than ten. A symbolic dimension counts as `_SYMBOLIC`.
_MANY_ELEMENTS, _SYMBOLIC = 1024, 8


@rules.lower("jax.nn.softplus")
def softplus_by_formula(ctx: Context, x: Value) -> Value:
    """`max(x, 0) + log(1 + e)` with `e = exp(-|x|)`, where these operators are faster on many elements.

    The logarithm of `u = 1 + e` as it was rounded, corrected by the error of the sum, is accurate for small `e` as well (Goldberg,
    What Every Computer Scientist Should Know About Floating-Point Arithmetic, 1991).
    """
    _require_formula_of_softplus(ctx, x)
    return _softplus(ctx, x, x)


@rules.lower("jax.nn.log_sigmoid")
def log_sigmoid_by_formula(ctx: Context, x: Value) -> Value:
    """`-softplus(-x)` in the same way."""
    _require_formula_of_softplus(ctx, x)
    return ctx.op.Neg(_softplus(ctx, x, ctx.op.Neg(x)))


def _require_formula_of_softplus(ctx: Context, x: Value) -> None:
    count = math.prod(int(dim) if is_static(dim) else _SYMBOLIC for dim in ctx.avals_in[0].shape)
    if ctx.dtype(x) != np.float32 or count < _MANY_ELEMENTS:
        ctx.pass_on("Softplus itself is fast enough")
    if ctx.prefers(Form.SOFTPLUS, Form.SOFTPLUS_BY_FORMULA) is Form.SOFTPLUS:
        ctx.pass_on("Softplus is as fast")


def _softplus(ctx: Context, x: Value, signed: Value) -> Value:
    """Softplus of `signed`, which is `x` or its negative."""
    one = ctx.constant(1.0, like=x)
    e = ctx.op.Exp(ctx.op.Neg(ctx.op.Abs(x)))
    u = ctx.op.Add(e, one)
    missing = ctx.op.Div(ctx.op.Sub(ctx.op.Sub(u, one), e), u)
    return ctx.op.Add(ctx.op.Relu(signed), ctx.op.Sub(ctx.op.Log(u), missing))


@composites.call("jax.nn:gelu", name="jax.nn.gelu", keep_under_vmap=True)
def gelu(x: jax.Array, approximate: bool = True) -> Call | Replacement | None:
    if not is_float_array(x):
        return None
    return Call(x, approximate=True) if approximate else Replacement(_exact_gelu(x))


def _whole_exact_gelu(x: jax.Array) -> jax.Array:
    """x Φ(x) as one operation."""

    def meaning() -> jax.Array:
        return (0.5 * x * lax.erfc(-x * np.sqrt(0.5).astype(x.dtype))).astype(x.dtype)

    result: jax.Array = bind_composite("jax.nn.gelu", Call(x, approximate=False), meaning, keep_under_vmap=True)
    return result


def _jvp_of_exact_gelu(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Φ(x) + x φ(x) by erf: by erfc, as JAX has it, its formulas for small and for large numbers would both be computed."""
    (x,), (tangent,) = primals, tangents
    distribution = 0.5 * (1 + lax.erf(x * np.sqrt(0.5).astype(x.dtype)))
    density = jnp.exp(-0.5 * x * x) * np.asarray(1 / np.sqrt(2 * np.pi), x.dtype)
    return _exact_gelu(x), tangent * (distribution + x * density)


# It stays whole where it is differentiated.
_exact_gelu: jax.custom_jvp[jax.Array] = jax.custom_jvp(_whole_exact_gelu)
_exact_gelu.defjvp(_jvp_of_exact_gelu)


@rules.lower("jax.nn.gelu")
def lower_gelu(ctx: Context, x: Value, *, approximate: bool) -> Value:
    """The operator Gelu, where its kernel has the precision of the element type."""
    ctx.require("Gelu", x, since=20)
    if not ctx.guarantees("Gelu", ctx.dtype(x), "accurate"):
        ctx.decline(f"Gelu of {ctx.dtype(x)} is not accurate to it")
    return ctx.op.Gelu(x, approximate="tanh" if approximate else "none")


@rules.lower("jax.nn.gelu")
def lower_gelu_erf(ctx: Context, x: Value, *, approximate: bool) -> Value:
    """Exact gelu before opset 20, in the form that the target fuses."""
    primitives = Form.GELU_BY_DIFFERENCE
    if approximate or ctx.opset >= 20 or ctx.prefers(primitives, Form.GELU_BY_QUOTIENT) is primitives:
        ctx.pass_on("the primitives are as good")
    ctx.require("Erf", x)
    one, half = ctx.constant(1.0, like=x), ctx.constant(0.5, like=x)
    erf = ctx.op.Erf(ctx.op.Div(x, ctx.constant(math.sqrt(2.0), like=x)))
    return ctx.op.Mul(ctx.op.Mul(x, ctx.op.Add(erf, one)), half)


@composites.call("jax.nn:glu", name="jax.nn.glu", keep_under_vmap=True)
def glu(x: jax.Array, axis: int = -1) -> Call | None:
    if not is_float_array(x) or not isinstance(axis, int) or not is_static(x.shape[axis]) or x.shape[axis] == 0:
        return None
    return Call(x, axis=axis if axis < 0 else axis - x.ndim)


@rules.lower("jax.nn.glu")
def lower_glu(ctx: Context, x: Value, *, axis: int) -> Value:
    """`value * sigmoid(gate)` of the two halves along `axis`: one Split instead of two Slices."""
    value, gate = ctx.op.several("Split", x, outputs=2, axis=axis, num_outputs=2)
    return ctx.op.Mul(value, ctx.op.Sigmoid(gate))
