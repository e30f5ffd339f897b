"""`reduce_window*`: pooling operators where they are exact, else folds of shifted slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Context, Jaxpr, Rules, Value

from jax2onnx_lax._numerics import computed_in
from jax2onnx_lax.complex._arrays import on_arrays
from jax2onnx_lax.monoids import MONOIDS, Monoid, combiner, from_identity, recognise
from jax2onnx_lax.reduce._pooling import pool_max, pool_min, pool_sum
from jax2onnx_lax.reduce._window_folds import fold_windows, reduce_windows
from jax2onnx_lax.reduce._windows import WindowParams, Windows

__all__ = ["rules"]

rules = Rules()


@rules.lower("reduce_window_sum")
def lower_window_sum(ctx: Context, x: Value, **params: Unpack[WindowParams]) -> Value:
    """The sum of each window by AveragePool."""
    return pool_sum(ctx, x, Windows.from_params(**params))


@rules.lower("reduce_window_max")
def lower_window_max(ctx: Context, x: Value, **params: Unpack[WindowParams]) -> Value:
    """The greatest element of each window by MaxPool."""
    return pool_max(ctx, x, Windows.from_params(**params))


@rules.lower("reduce_window_min")
def lower_window_min(ctx: Context, x: Value, **params: Unpack[WindowParams]) -> Value:
    """The least element of each window by MaxPool of the negated operand."""
    return pool_min(ctx, x, Windows.from_params(**params))


# Sums and products of half-precision windows are rounded once.
_accumulate = computed_in(np.float32)(reduce_windows)


@rules.decompose("reduce_window_sum")
def window_sum(x: Array, **params: Unpack[WindowParams]) -> Array:
    """The sum of each window by folds."""
    return _accumulate(x, monoid=MONOIDS["add"], shape=Windows.from_params(**params))


@rules.decompose("reduce_window_max")
def window_max(x: Array, **params: Unpack[WindowParams]) -> Array:
    """The greatest element of each window by folds."""
    return reduce_windows(x, monoid=MONOIDS["max"], shape=Windows.from_params(**params))


@rules.decompose("reduce_window_min")
def window_min(x: Array, **params: Unpack[WindowParams]) -> Array:
    """The least element of each window by folds."""
    return reduce_windows(x, monoid=MONOIDS["min"], shape=Windows.from_params(**params))


_OF_MONOID = {"add": lax.reduce_window_sum_p, "max": lax.reduce_window_max_p, "min": lax.reduce_window_min_p}


def _by_monoid(x: Array, *, monoid: Monoid, **params: Unpack[WindowParams]) -> Array:
    """The windows of `x` reduced by a monoid from its identity, by its own primitive if there is one."""
    for name, primitive in _OF_MONOID.items():
        if monoid is MONOIDS[name]:
            return primitive.bind(x, **params)
    return _accumulate(x, monoid=monoid, shape=Windows.from_params(**params))


@rules.lower("reduce_window")
def reduce_window(
    ctx: Context, *operands: Value, jaxpr: Jaxpr, consts: Sequence[object], **params: Unpack[WindowParams]
) -> Value:
    """`lax.reduce_window` by a known operation from its identity."""
    monoid = from_identity(ctx, jaxpr, operands[-1])
    return ctx.jax(_by_monoid, operands[0], monoid=monoid, **params)


@rules.decompose("reduce_window")
def window_by_computation(
    *operands: Array, jaxpr: Jaxpr, consts: Sequence[object], **params: Unpack[WindowParams]
) -> Sequence[Array]:
    """Any number of operands, any associative and commutative computation, any initial values."""
    half = len(operands) // 2
    monoid = recognise(jaxpr)
    if monoid is None:
        combine, shape = combiner(jaxpr, consts), Windows.from_params(**params)
        return fold_windows(operands[:half], operands[half:], combine, shape, neutral=False, idempotent=False)
    # XLA's CPU backend leaves padding out, whatever the initial value is.
    folded = _by_monoid(operands[0], monoid=monoid, **params)
    return [monoid.combine(jnp.broadcast_to(operands[1], folded.shape), folded)]


rules.complex("reduce_window_max", on_arrays(window_max))
rules.complex("reduce_window_min", on_arrays(window_min))
rules.complex("reduce_window", on_arrays(window_by_computation))
