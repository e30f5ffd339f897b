"""`pad`: before, after and between the elements, by negative amounts too; `jnp.pad` by the elements of the array itself.

The mode "wrap" of `jnp.pad` is left to JAX's formulas: Pad has it from opset 19 only, and not on all targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Context, Dim, Replacement, Rules, Value
from jax2onnx_core.jaxprs import definitely_le, is_static
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._compat import min_dim
from jax2onnx_lax.indexing._generated_arrays import zeros
from jax2onnx_lax.indexing.slicing import slice_along
from jax2onnx_lax.sizes.creation import dims_from_data, has_numbers_from_data

__all__ = ["composites", "rules"]

composites = Composites()
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


@composites.call("jax.numpy:pad", name="jax.numpy.pad", keep_under_vmap=True)
def pad_by_elements(
    array: jax.Array, pad_width: object, mode: str = "constant", **options: object
) -> Call | Replacement | None:
    if has_numbers_from_data(pad_width):
        widths = dims_from_data(pad_width, "pad")
        by_position = _POSITIONS.get(mode) if options in ({}, {"reflect_type": "even"}) else None
        return Replacement(
            jnp.pad(array, widths, mode, **options) if by_position is None else _padded(array, widths, by_position)
        )
    if mode not in _POSITIONS or options not in ({}, {"reflect_type": "even"}) or not array.ndim:
        return None
    widths = _static_widths(pad_width, array.ndim)
    if widths is None:
        return None
    if mode != "edge" and not all(_is_long_enough(*one, mode) for one in zip(array.shape, widths, strict=True)):
        return Replacement(_padded(array, widths, _POSITIONS[mode]))
    return Call(array, widths=widths, mode=mode) if mode in _OFFSETS else None


def _is_long_enough(size: Dim, width: tuple[int, int], mode: str) -> bool:
    """Whether JAX pads an axis of this size by its elements."""
    if is_static(size) or not any(width):
        return True
    return mode in _OFFSETS and definitely_le(max(*width, 1) + 1, size)


#: Where the elements come from that are at a place relative to the first one, by the mode and the size of the axis.
_POSITIONS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "edge": lambda place, size: jnp.clip(place, 0, size - 1),
    "wrap": lambda place, size: place % size,
    "symmetric": lambda place, size: _mirrored(place % (2 * size), 2 * size - 1),
    "reflect": lambda place, size: _mirrored(place % jnp.maximum(2 * size - 2, 1), 2 * size - 2),
}


def _mirrored(place: jax.Array, last: jax.Array) -> jax.Array:
    return jnp.minimum(place, last - place)


def _padded(x: jax.Array, pad_width: object, position: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array:
    """`x`, padded by its own elements in numbers that are computed."""
    for axis, (before, after) in enumerate(_pairs(pad_width, x.ndim)):
        if not (is_static(before) and is_static(after) and before == after == 0):
            places = jnp.arange(before + x.shape[axis] + after) - jnp.asarray(before)
            x = jnp.take(x, position(places, jnp.asarray(x.shape[axis])), axis=axis, mode="clip")
    return x


def _pairs(pad_width: object, rank: int) -> list[tuple[Dim, Dim]]:
    """(before, after) for each axis."""
    widths = pad_width if isinstance(pad_width, tuple) else (pad_width,)
    pairs = [(one[0], one[-1]) for one in (widths if isinstance(widths[0], tuple) else [widths])]
    return pairs * rank if len(pairs) == 1 else pairs


# The end of a slice backwards that takes the first element too.
_BEFORE_THE_FIRST = -(2**63)
#: The modes of Pad, and of reversed slices, with how many elements of the ends these leave out.
_OFFSETS = {"edge": None, "reflect": 1, "symmetric": 0}


def _static_widths(pad_width: object, rank: int) -> tuple[tuple[int, int], ...] | None:
    """(before, after) for each axis; None where an amount is no fixed number, or is given by the number of its axis."""
    widths = np.asarray(pad_width)
    if not np.issubdtype(widths.dtype, np.integer):
        return None
    return tuple((int(low), int(high)) for low, high in np.broadcast_to(widths, (rank, 2)))


@rules.lower("jax.numpy.pad")
def lower_pad_by_elements(ctx: Context, x: Value, *, widths: Sequence[tuple[int, int]], mode: str) -> Value:
    """`x`, padded by its own elements along its last axes: by Pad, or by reversed slices for "symmetric", which Pad has not."""
    dims = ctx.known_dims(x)
    widths = [(0, 0)] * (len(dims) - len(widths)) + list(widths)
    offset = _OFFSETS[mode]
    for size, width in zip(dims, widths, strict=True):
        if not ctx.is_positive(size):
            ctx.decline("an axis may be empty")
        if offset is not None and any(width) and not definitely_le(max(width) + offset, size):
            ctx.decline("an axis may be shorter than its padding")
    if mode != "symmetric" and ctx.supports("Pad", ctx.dtype(x)):
        amounts = [amount for side in zip(*widths, strict=True) for amount in side]
        return ctx.op.Pad(x, ctx.ints(amounts), mode=mode, dims=ctx.avals_out[0].shape)
    if offset is None:
        ctx.decline(f"{ctx.target.name} has no Pad for {ctx.dtype(x)}")
    for axis, (low, high) in enumerate(widths):
        x = _reflected(ctx, x, axis, low, high, offset)
    return x


def _reflected(ctx: Context, x: Value, axis: int, low: int, high: int, offset: int) -> Value:
    """`x` between its first `low` elements and its last `high` ones, reversed, without `offset` elements at its ends."""
    dims = ctx.known_dims(x)
    parts = [x]
    if low:
        end = offset - 1 if offset else _BEFORE_THE_FIRST
        wide = (*dims[:axis], low, *dims[axis + 1 :])
        parts.insert(0, ctx.slice(x, [offset + low - 1], [end], [axis], [-1], dims=wide))
    if high:
        wide = (*dims[:axis], high, *dims[axis + 1 :])
        parts.append(ctx.slice(x, [-offset - 1], [-offset - high - 1], [axis], [-1], dims=wide))
    return ctx.concat(parts, axis) if len(parts) > 1 else x


@rules.numpy_evaluator("pad")
def _evaluate_pad(x: Array, value: Array, *, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    if any(low < 0 or high < 0 or interior for low, high, interior in padding_config):
        raise NotImplementedError("only padding around the elements is evaluated here")
    if not padding_config:  # NumPy takes no empty list of widths
        return x
    return np.pad(x, [(low, high) for low, high, _ in padding_config], constant_values=value)
