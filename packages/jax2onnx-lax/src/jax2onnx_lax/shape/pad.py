"""`pad`: before, after and between the elements, by negative amounts too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax2onnx_core import Context, Dim, Rules, Value
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._compat import min_dim
from jax2onnx_lax.indexing._generated_arrays import zeros
from jax2onnx_lax.indexing.slicing import slice_along

__all__ = ["rules"]

rules = Rules()
rules.componentwise("pad")


@rules.lower("pad")
def pad(ctx: Context, x: Value, value: Value, *, padding_config: Sequence[tuple[Dim, Dim, Dim]], **_: object) -> Value:
    """`x` with the scalar `value` before and after the elements, and between them, along every axis.

    `padding_config` has (before, after, between) for each axis; negative amounts before and after remove elements.
    """
    (aval,) = ctx.avals_out
    if any(size == 0 for size in aval.shape):
        return zeros(ctx, ctx.dtype(x), aval.shape)
    config = list(padding_config)
    for axis, (low, high, interior) in enumerate(config):
        size = ctx.known_dims(x)[axis]
        if interior != 0 and size != 0:
            x = _spread(ctx, x, value, axis, interior)
            # Nothing is between the elements behind the last one; an axis without elements has no last one.
            surplus = interior if ctx.is_positive(size) else min_dim(interior, size * interior)
            config[axis] = (low, high - surplus, 0)
    before, after = [c[0] for c in config], [c[1] for c in config]
    if all(isinstance(amount, int) and amount <= 0 for amount in (*before, *after)):
        return _crop(ctx, x, before, after)
    return ctx.op.Pad(x, ctx.shape((*before, *after)), _pad_operand(ctx, value), dims=aval.shape)


def _spread(ctx: Context, x: Value, value: Value, axis: int, interior: Dim) -> Value:
    """`interior` padding elements behind every element along `axis`, the last one too."""
    dims = ctx.known_dims(x)
    rank, step = len(dims) + 1, 1 + interior
    amounts: list[Dim] = [0] * (2 * rank)
    amounts[rank + axis + 1] = interior
    wide = (*dims[: axis + 1], step, *dims[axis + 1 :])
    padded = ctx.op.Pad(ctx.unsqueeze(x, [axis + 1]), ctx.shape(amounts), _pad_operand(ctx, value), dims=wide)
    return ctx.reshape(padded, (*dims[:axis], dims[axis] * step, *dims[axis + 1 :]))


def _crop(ctx: Context, x: Value, before: Sequence[Dim], after: Sequence[Dim]) -> Value:
    """`x` without -before and -after elements along each axis; no amount is positive."""
    dims = ctx.known_dims(x)
    axes = [d for d in range(len(dims)) if before[d] < 0 or after[d] < 0]
    starts, ends = [-before[d] for d in axes], [dims[d] + after[d] for d in axes]
    return slice_along(ctx, x, axes, starts, ends, None, [e - s for s, e in zip(starts, ends, strict=True)])


def _pad_operand(ctx: Context, value: Value) -> Value | None:
    """The operand of Pad for this value; none for its default, zero."""
    known = ctx.known(value)
    is_zero = known is not None and known == 0 and not np.signbit(known.astype(np.float64))
    return None if is_zero else value


@rules.numpy_evaluator("pad")
def _evaluate_pad(x: Array, value: Array, *, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    if any(low < 0 or high < 0 or interior for low, high, interior in padding_config):
        raise NotImplementedError("only padding around the elements is evaluated here")
    if not padding_config:  # NumPy takes no empty list of widths
        return x
    return np.pad(x, [(low, high) for low, high, _ in padding_config], constant_values=value)
