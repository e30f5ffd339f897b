"""`pad`: before, after and between the elements, by negative amounts too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax2onnx_core import Rules

from jax2onnx_lax.indexing.slicing import slice_along

__all__ = ["rules"]

rules = Rules()
rules.componentwise("pad")


@rules.lower("pad")
def pad(ctx: Any, x: Any, value: Any, *, padding_config: Sequence[tuple[Any, Any, Any]], **_: Any) -> Any:
    (aval,) = ctx.avals_out
    if any(_is(size, 0) for size in aval.shape):
        return ctx.broadcast(ctx.constant(np.zeros((), ctx.dtype(x))), aval.shape)
    config = list(padding_config)
    for axis, (low, high, interior) in enumerate(config):
        if not _is(interior, 0) and not _is(ctx.dims(x)[axis], 0):
            x = _spread(ctx, x, value, axis, interior)
            config[axis] = (low, high - interior, 0)
    before, after = [c[0] for c in config], [c[1] for c in config]
    if all(isinstance(amount, int) and amount <= 0 for amount in (*before, *after)):
        return _crop(ctx, x, before, after)
    return ctx.op.Pad(x, ctx.shape((*before, *after)), _fill(ctx, value), dims=aval.shape)


def _spread(ctx: Any, x: Any, value: Any, axis: int, interior: Any) -> Any:
    """`interior` padding elements behind every element along `axis`, the last one too."""
    dims = ctx.dims(x)
    rank, step = len(dims) + 1, 1 + interior
    columns = ctx.unsqueeze(x, [axis + 1])
    amounts = [0] * (2 * rank)
    amounts[rank + axis + 1] = interior
    wide = (*dims[: axis + 1], step, *dims[axis + 1 :])
    columns = ctx.op.Pad(columns, ctx.shape(tuple(amounts)), _fill(ctx, value), dims=wide)
    return ctx.reshape(columns, (*dims[:axis], dims[axis] * step, *dims[axis + 1 :]))


def _crop(ctx: Any, x: Any, before: Sequence[int], after: Sequence[int]) -> Any:
    """Padding by nothing or less."""
    dims = ctx.dims(x)
    axes = [d for d in range(len(dims)) if before[d] < 0 or after[d] < 0]
    starts, ends = [-before[d] for d in axes], [dims[d] + after[d] for d in axes]
    return slice_along(ctx, x, axes, starts, ends, None, [e - s for s, e in zip(starts, ends, strict=True)])


def _fill(ctx: Any, value: Any) -> Any:
    """The operand of Pad for this value; none for its default, zero."""
    known = ctx.known(value)
    zero = known is not None and known == 0 and not np.signbit(known.astype(np.float64))
    return None if zero else value


def _is(dim: Any, number: Any) -> bool:
    return bool(dim == number)


@rules.numpy_evaluator("pad")
def _fold_pad(x: np.ndarray, value: np.ndarray, *, padding_config: Sequence[tuple[int, int, int]]) -> np.ndarray:
    if any(low < 0 or high < 0 or interior for low, high, interior in padding_config):
        raise NotImplementedError("only plain padding is folded here")
    amounts = [(low, high) for low, high, _ in padding_config]
    return np.pad(x, amounts, constant_values=value)
