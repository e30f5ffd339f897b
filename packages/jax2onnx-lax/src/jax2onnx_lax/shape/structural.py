"""Shapes and element order: reshape, transpose, broadcast, concatenate, split, tile, reverse, copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from jax import lax
from jax2onnx_core import Context, Dim, Rules, Value
from jax2onnx_graph.build.builder import Array
from jax2onnx_graph.rewrite.patterns import operation

__all__ = ["rules"]

rules = Rules()

# Where a slice that runs backwards over a whole axis ends: before every index that an axis can have.
_BEFORE_THE_FIRST = -(2**63)

rules.componentwise(
    "broadcast_in_dim", "concatenate", "copy", "optimization_barrier", "reshape", "rev", "split", "squeeze", "stack",
    "tie", "tile", "transpose", "unstack",
)  # fmt: skip


# ---------------------------------------------------------------------------------------- shapes


@rules.lower("reshape")
def reshape(
    ctx: Context, x: Value, *_: Value, new_sizes: Sequence[Dim], dimensions: Sequence[int] | None = None, **__: object
) -> Value:
    """`x`, its axes in the order `dimensions` first, with the shape `new_sizes`; rules that ask for its equation find a view of that."""
    if dimensions is None:
        return ctx.reshape(x, new_sizes)
    # JAX takes symbolic sizes too, which its annotations do not say.
    return ctx.jax(lambda y: lax.reshape(lax.transpose(y, dimensions), cast("Sequence[int]", new_sizes)), x)


@rules.numpy_evaluator("reshape")
def _evaluate_reshape(
    x: Array, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, **_: object
) -> Array:
    return (x if dimensions is None else np.transpose(x, dimensions)).reshape(new_sizes)


@rules.lower("squeeze")
def squeeze(ctx: Context, x: Value, *, dimensions: Sequence[int], **_: object) -> Value:
    """`x` without the axes `dimensions`, each of size 1."""
    picked = _squeezed_gather(ctx, x, dimensions)
    return ctx.squeeze(x, dimensions) if picked is None else picked


def _squeezed_gather(ctx: Context, x: Value, dimensions: Sequence[int]) -> Value | None:
    """Fold `squeeze(Gather(data, [i]))`, as JAX makes it of `x[i]`, to `Gather(data, i)`."""
    picked: dict[int, Value] = {}
    data = x
    while (node := operation(data, "Gather")) is not None:
        axis, (source, wide) = node.attributes.get_int("axis", 0), node.inputs
        index = operation(wide, "Unsqueeze")
        number = None if index is None else index.inputs[0]
        if source is None or number is None or ctx.dims(number) != () or axis not in dimensions or axis in picked:
            break
        picked[axis], data = number, source
    for axis in sorted(picked, reverse=True):
        dims = ctx.known_dims(data)
        data = ctx.op.Gather(data, picked[axis], axis=axis, dims=(*dims[:axis], *dims[axis + 1 :]))
    rest = [d - sum(axis < d for axis in picked) for d in dimensions if d not in picked]
    return ctx.squeeze(data, rest) if picked else None


@rules.numpy_evaluator("squeeze")
def _evaluate_squeeze(x: Array, *, dimensions: Sequence[int], **_: object) -> Array:
    return np.squeeze(x, tuple(dimensions))


@rules.lower("transpose")
def transpose(ctx: Context, x: Value, *, permutation: Sequence[int], **_: object) -> Value:
    """Axis i of the result is axis `permutation[i]` of `x`."""
    return ctx.transpose(x, permutation)


@rules.numpy_evaluator("transpose")
def _evaluate_transpose(x: Array, *, permutation: Sequence[int], **_: object) -> Array:
    return np.transpose(x, permutation)


@rules.lower("broadcast_in_dim")
def broadcast_in_dim(
    ctx: Context, x: Value, *_: Value, shape: Sequence[Dim], broadcast_dimensions: Sequence[int], **__: object
) -> Value:
    """`x` expanded to `shape`: axis i of `x` becomes axis `broadcast_dimensions[i]`."""
    new = [d for d in range(len(shape)) if d not in broadcast_dimensions]
    kept = all(shape[d] == size for d, size in zip(broadcast_dimensions, ctx.known_dims(x), strict=True))
    if kept and all(shape[d] == 1 for d in new):
        return ctx.unsqueeze(x, new)
    return ctx.broadcast_in_dim(x, shape, broadcast_dimensions)


@rules.numpy_evaluator("broadcast_in_dim")
def _evaluate_broadcast_in_dim(
    x: Array, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: object
) -> Array:
    placed = [1] * len(shape)
    for size, dimension in zip(x.shape, broadcast_dimensions, strict=True):
        placed[dimension] = size
    return np.broadcast_to(x.reshape(placed), shape)


# ---------------------------------------------------------------------------------------- joining and parting


@rules.lower("concatenate")
def concatenate(ctx: Context, *xs: Value, dimension: int, **_: object) -> Value:
    """The arrays one after another along an axis; empty ones are left out."""
    filled = [x for x in xs if ctx.known_dims(x)[dimension] != 0]
    return ctx.concat(filled or xs[:1], dimension)


@rules.numpy_evaluator("concatenate")
def _evaluate_concatenate(*xs: Array, dimension: int, **_: object) -> Array:
    return np.concatenate(xs, dimension)


@rules.lower("stack")
def stack(ctx: Context, *xs: Value, axis: int, **_: object) -> Value:
    """Arrays of one shape along a new axis."""
    axis %= len(ctx.avals_out[0].shape)
    return ctx.concat([ctx.unsqueeze(x, [axis]) for x in xs], axis)


@rules.numpy_evaluator("stack")
def _evaluate_stack(*xs: Array, axis: int, **_: object) -> Array:
    return np.stack(xs, axis)


@rules.lower("unstack")
def unstack(ctx: Context, x: Value, *, axis: int, **_: object) -> list[Value]:
    """The parts of `x` at each index of an axis, without it."""
    axis %= len(ctx.avals_in[0].shape)
    count = len(ctx.avals_out)
    if count == 1:
        return [ctx.squeeze(x, [axis])]
    rest = ctx.avals_out[0].shape
    return [ctx.op.Gather(x, ctx.constant(i, dtype=np.int64), axis=axis, dims=rest) for i in range(count)]


@rules.numpy_evaluator("unstack")
def _evaluate_unstack(x: Array, *, axis: int, **_: object) -> list[Array]:
    return list(np.moveaxis(x, axis, 0))


@rules.lower("split")
def split(ctx: Context, x: Value, *, sizes: Sequence[Dim], axis: int, **_: object) -> Sequence[Value]:
    """Parts of `x` of these sizes along an axis."""
    if len(sizes) == 1:
        return [x]
    return ctx.op.several("Split", x, ctx.shape(sizes), axis=axis, outputs=len(sizes))


@rules.numpy_evaluator("split")
def _evaluate_split(x: Array, *, sizes: Sequence[int], axis: int, **_: object) -> list[Array]:
    return np.split(x, np.cumsum(sizes)[:-1], axis)


@rules.lower("tile")
def tile(ctx: Context, x: Value, *, reps: Sequence[Dim], **_: object) -> Value:
    """`x` repeated `reps[i]` times along axis i of the result."""
    if all(rep == 1 for rep in reps):
        return x
    dims = ctx.known_dims(x)
    dims = (1,) * (len(reps) - len(dims)) + dims
    x = ctx.reshape(x, dims)
    if all(size == 1 or rep == 1 for size, rep in zip(dims, reps, strict=True)):
        return ctx.broadcast(x, ctx.avals_out[0].shape)
    return ctx.op.Tile(x, ctx.shape(reps))


@rules.lower("rev")
def rev(ctx: Context, x: Value, *, dimensions: Sequence[int], **_: object) -> Value:
    """Reverse `x` along the axes `dimensions`; two reversals of an axis cancel."""
    dims = ctx.known_dims(x)
    axes = [d for d in dimensions if dims[d] not in (0, 1)]
    if not axes:
        return x
    before = ctx.definition(x)
    if before is not None and before.primitive == "rev" and set(axes) == {*before.params["dimensions"]}:
        return before.operands[0]
    last, stop, back = (ctx.ints([v] * len(axes)) for v in (-1, _BEFORE_THE_FIRST, -1))
    return ctx.op.Slice(x, last, stop, ctx.ints(axes), back)


@rules.numpy_evaluator("rev")
def _evaluate_rev(x: Array, *, dimensions: Sequence[int], **_: object) -> Array:
    return np.flip(x, tuple(dimensions))


# ---------------------------------------------------------------------------------------- no operation


@rules.lower("copy", "copy_p")
def copy(ctx: Context, x: Value, **_: object) -> Value:
    """`x` itself: the values of a graph are never overwritten."""
    return x


@rules.numpy_evaluator("copy", "copy_p")
def _evaluate_copy(x: Array, **_: object) -> Array:
    return x


@rules.lower("tie")
def tie(ctx: Context, before: Value, x: Value, **_: object) -> Value:
    """Return `x` itself: the order of effects is not part of a graph's meaning."""
    return x


@rules.lower("optimization_barrier")
def optimization_barrier(ctx: Context, *xs: Value, **_: object) -> Sequence[Value]:
    """The operands themselves: a barrier to XLA's optimisations has no meaning in ONNX."""
    return xs


@rules.lower("dce_sink", physical=True)
def dce_sink(ctx: Context, *_: Value, **__: object) -> Sequence[Value]:
    """Emit nothing: the primitive keeps XLA from removing its operands."""
    return []
