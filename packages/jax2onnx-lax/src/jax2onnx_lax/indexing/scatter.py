"""The rules of the `scatter` family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.lax import GatherScatterMode, ScatterDimensionNumbers
from jax2onnx_core import Complex, Context, Jaxpr, Rules, Value
from jax2onnx_core.jaxprs import open_jaxpr
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax.dtypes import is_bool, is_float
from jax2onnx_lax.indexing._index_arrays import to_index
from jax2onnx_lax.indexing._scatter_in_order import apply_in_order
from jax2onnx_lax.indexing._scatter_operators import lower_task
from jax2onnx_lax.indexing._scatter_task import prepare

__all__ = ["rules"]

rules = Rules()
rules.componentwise("scatter", "scatter-add", "scatter-sub")


class _Params(TypedDict):
    """The parameters of every scatter."""

    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool
    unique_indices: bool
    mode: GatherScatterMode
    update_jaxpr: Jaxpr | None
    update_consts: Sequence[jax.Array]


@rules.lower("scatter")
def scatter(ctx: Context, x: Value, indices: Value, updates: Value, **params: Unpack[_Params]) -> Value:
    """`x` with windows replaced; a function that combines elements is left to the decomposition."""
    if params["update_jaxpr"] is not None:
        ctx.decline("each element is computed by a function of its own")
    return _lower(ctx, x, indices, updates, "none", params)


@rules.lower("scatter-add")
def scatter_add(ctx: Context, x: Value, indices: Value, updates: Value, **params: Unpack[_Params]) -> Value:
    """`x` with windows added to it."""
    return _lower(ctx, x, indices, updates, "add", params)


@rules.lower("scatter-sub")
def scatter_sub(ctx: Context, x: Value, indices: Value, updates: Value, **params: Unpack[_Params]) -> Value:
    """`x` with windows subtracted from it; unsigned numbers, which Neg does not take, wrap around."""
    is_unsigned = "uint" in ctx.dtype(updates).name
    negated = ctx.op.Sub(ctx.constant(0, like=updates), updates) if is_unsigned else ctx.op.Neg(updates)
    return _lower(ctx, x, indices, negated, "add", params)


@rules.lower("scatter-mul")
def scatter_mul(ctx: Context, x: Value, indices: Value, updates: Value, **params: Unpack[_Params]) -> Value:
    """`x` multiplied by windows."""
    return _lower(ctx, x, indices, updates, "mul", params)


@rules.lower("scatter-max", "scatter-min")
def scatter_extremum(ctx: Context, x: Value, indices: Value, updates: Value, **params: Unpack[_Params]) -> Value:
    """The maximum or minimum of `x` and windows. NaN propagates; booleans are compared as bytes."""
    reduction, dtype = ctx.primitive.removeprefix("scatter-"), ctx.dtype(x)
    if is_bool(dtype):
        x, updates = ctx.cast(x, np.uint8), ctx.cast(updates, np.uint8)
        return ctx.cast(_lower(ctx, x, indices, updates, reduction, params), np.bool_)
    result = _lower(ctx, x, indices, updates, reduction, params)
    operators = [f"{op_type}_{reduction}" for op_type in ("ScatterElements", "ScatterND")]
    if not is_float(dtype) or all(ctx.guarantees(op_type, dtype, "nan") for op_type in operators):
        return result
    # A NaN is forgotten as soon as a number follows: multiply by the NaNs again (1 changes nothing).
    nans = [ctx.op.Where(ctx.op.IsNaN(v), v, ctx.constant(1, like=v)) for v in (x, updates)]
    return ctx.op.Mul(result, _lower(ctx, nans[0], indices, nans[1], "mul", params))


def _lower(ctx: Context, x: Value, indices: Value, updates: Value, reduction: str, params: _Params) -> Value:
    if any(size == 0 for size in (*ctx.known_dims(updates), *ctx.known_dims(x))):
        return x
    task = prepare(ctx, x, to_index(ctx, indices), updates, params["dimension_numbers"], params["mode"], reduction)
    return lower_task(ctx, task, unique=params["unique_indices"])


rules.decompose("scatter", apply_in_order)


@rules.complex("scatter")
def _complex_scatter(
    x: Complex, indices: jax.Array, updates: Complex, *, update_jaxpr: Jaxpr | None, **params: Any
) -> Complex:
    if update_jaxpr is None:
        parts = zip(x, updates, strict=True)
        return Complex(*(lax.scatter_p.bind(a, indices, b, update_jaxpr=None, **params) for a, b in parts))
    whole = apply_in_order(lax.complex(*x), indices, lax.complex(*updates), update_jaxpr=update_jaxpr, **params)
    return Complex(lax.real(whole), lax.imag(whole))


def _evaluator(primitive: Primitive) -> Callable[..., Array]:
    """Evaluation by JAX, which the engine does not try because the parameters hold a jaxpr."""

    def evaluate(*arrays: Array, update_jaxpr: Jaxpr | None, **params: object) -> Array:
        if update_jaxpr is not None and open_jaxpr(update_jaxpr)[0].invars[0].aval.dtype != arrays[0].dtype:
            raise NotImplementedError("the parameters are those of a complex scatter, the arrays one component")
        with jax.ensure_compile_time_eval():
            return np.asarray(primitive.bind(*map(jnp.asarray, arrays), update_jaxpr=update_jaxpr, **params))

    return evaluate


for _primitive in (
    lax.scatter_p, lax.scatter_add_p, lax.scatter_sub_p, lax.scatter_mul_p, lax.scatter_min_p, lax.scatter_max_p
):  # fmt: skip
    rules.numpy_evaluator(_primitive.name, _evaluator(_primitive))
