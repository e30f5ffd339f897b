"""Shapes and element order: reshape, transpose, broadcast, concatenate, split, reverse, iota, dimension values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax2onnx_core import Complex, Rules

from jax2onnx_lax.indexing.index_analysis import DIMENSION, PROGRESSION, RANGE, producer

__all__ = ["rules"]

rules = Rules()

# An iota up to this many elements is stored; a longer one is computed when the model runs.
_STORED_ELEMENTS = 4096
# Where a slice that runs backwards over a whole axis ends: before every index that an axis can have.
_BEFORE_THE_FIRST = -(2**63)

rules.componentwise(
    "broadcast_in_dim", "concatenate", "copy", "empty", "empty2", "optimization_barrier", "reshape", "rev", "split",
    "squeeze", "stack", "tie", "tile", "transpose", "unstack", "zeros_like",
)  # fmt: skip


# ---------------------------------------------------------------------------------------- shapes


@rules.lower("reshape")
def reshape(ctx: Any, x: Any, *_: Any, new_sizes: Sequence[Any], dimensions: Any = None, **__: Any) -> Any:
    if dimensions is not None:
        x = ctx.transpose(x, tuple(dimensions))
    return ctx.reshape(x, tuple(new_sizes))


@rules.numpy_evaluator("reshape")
def _fold_reshape(x: np.ndarray, *, new_sizes: Sequence[int], dimensions: Any = None, **_: Any) -> np.ndarray:
    return (x if dimensions is None else np.transpose(x, dimensions)).reshape(_static(new_sizes))


@rules.lower("squeeze")
def squeeze(ctx: Any, x: Any, *, dimensions: Sequence[int], **_: Any) -> Any:
    picked = _squeezed_gather(ctx, x, tuple(dimensions))
    return ctx.squeeze(x, tuple(dimensions)) if picked is None else picked


def _squeezed_gather(ctx: Any, x: Any, dimensions: tuple[int, ...]) -> Any:
    """`squeeze(Gather(data, [i]))` as `Gather(data, i)`: what `x[i]` is after `dynamic_slice` and `squeeze`."""
    picked: dict[int, Any] = {}
    data = x
    while (node := producer(data, "Gather")) is not None:
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
        index = producer(node.inputs[1], "Unsqueeze")
        if index is None or ctx.dims(index.inputs[0]) != () or axis not in dimensions or axis in picked:
            break
        picked[axis], data = index.inputs[0], node.inputs[0]
    for axis in sorted(picked, reverse=True):
        dims = ctx.dims(data)
        data = ctx.op.Gather(data, picked[axis], axis=axis, dims=(*dims[:axis], *dims[axis + 1 :]))
    rest = [d - sum(axis < d for axis in picked) for d in dimensions if d not in picked]
    return ctx.squeeze(data, rest) if picked else None


@rules.numpy_evaluator("squeeze")
def _fold_squeeze(x: np.ndarray, *, dimensions: Sequence[int], **_: Any) -> np.ndarray:
    return np.squeeze(x, tuple(dimensions))


@rules.lower("transpose")
def transpose(ctx: Any, x: Any, *, permutation: Sequence[int], **_: Any) -> Any:
    return ctx.transpose(x, tuple(permutation))


@rules.numpy_evaluator("transpose")
def _fold_transpose(x: np.ndarray, *, permutation: Sequence[int], **_: Any) -> np.ndarray:
    return np.transpose(x, permutation)


@rules.lower("broadcast_in_dim")
def broadcast_in_dim(
    ctx: Any, x: Any, *_: Any, shape: Sequence[Any], broadcast_dimensions: Sequence[int], **__: Any
) -> Any:
    new = [d for d in range(len(shape)) if d not in broadcast_dimensions]
    kept = all(shape[d] == size for d, size in zip(broadcast_dimensions, ctx.dims(x), strict=True))
    if kept and all(shape[d] == 1 for d in new):
        return ctx.unsqueeze(x, new)
    return ctx.broadcast_in_dim(x, tuple(shape), tuple(broadcast_dimensions))


@rules.numpy_evaluator("broadcast_in_dim")
def _fold_broadcast_in_dim(
    x: np.ndarray, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any
) -> np.ndarray:
    placed = [1] * len(shape)
    for size, dimension in zip(x.shape, broadcast_dimensions, strict=True):
        placed[dimension] = size
    return np.broadcast_to(x.reshape(placed), _static(shape))


# ---------------------------------------------------------------------------------------- joining and parting


@rules.lower("concatenate")
def concatenate(ctx: Any, *xs: Any, dimension: int, **_: Any) -> Any:
    filled = [x for x in xs if ctx.dims(x)[dimension] != 0]
    return ctx.concat(filled or xs[:1], dimension)


@rules.numpy_evaluator("concatenate")
def _fold_concatenate(*xs: np.ndarray, dimension: int, **_: Any) -> np.ndarray:
    return np.concatenate(xs, dimension)


@rules.lower("stack")
def stack(ctx: Any, *xs: Any, axis: int, **_: Any) -> Any:
    axis %= len(ctx.avals_out[0].shape)
    return ctx.concat([ctx.unsqueeze(x, [axis]) for x in xs], axis)


@rules.numpy_evaluator("stack")
def _fold_stack(*xs: np.ndarray, axis: int, **_: Any) -> np.ndarray:
    return np.stack(xs, axis)


@rules.lower("unstack")
def unstack(ctx: Any, x: Any, *, axis: int, **_: Any) -> Any:
    axis %= len(ctx.avals_in[0].shape)
    count = len(ctx.avals_out)
    if count == 1:
        return [ctx.squeeze(x, [axis])]
    rest = ctx.avals_out[0].shape
    return [ctx.op.Gather(x, ctx.constant(i, dtype=np.int64), axis=axis, dims=rest) for i in range(count)]


@rules.numpy_evaluator("unstack")
def _fold_unstack(x: np.ndarray, *, axis: int, **_: Any) -> list[np.ndarray]:
    return list(np.moveaxis(x, axis, 0))


@rules.lower("split")
def split(ctx: Any, x: Any, *, sizes: Sequence[Any], axis: int, **_: Any) -> Any:
    if len(sizes) == 1:
        return [x]
    return ctx.op.several("Split", x, ctx.shape(tuple(sizes)), axis=axis, outputs=len(sizes))


@rules.numpy_evaluator("split")
def _fold_split(x: np.ndarray, *, sizes: Sequence[int], axis: int, **_: Any) -> list[np.ndarray]:
    return np.split(x, np.cumsum(_static(sizes))[:-1], axis)


@rules.lower("tile")
def tile(ctx: Any, x: Any, *, reps: Sequence[Any], **_: Any) -> Any:
    if all(isinstance(rep, int) and rep == 1 for rep in reps):
        return x
    dims = ctx.dims(x)
    leading = len(reps) - len(dims)
    x = ctx.reshape(x, (1,) * leading + dims) if leading else x
    if all(size == 1 or rep == 1 for size, rep in zip((1,) * leading + dims, reps, strict=True)):
        return ctx.broadcast(x, ctx.avals_out[0].shape)
    return ctx.op.Tile(x, ctx.shape(tuple(reps)))


@rules.lower("rev")
def rev(ctx: Any, x: Any, *, dimensions: Sequence[int], **_: Any) -> Any:
    dims = ctx.dims(x)
    axes = [d for d in dimensions if dims[d] not in (0, 1)]
    if not axes:
        return x
    last, stop, back = ([v] * len(axes) for v in (-1, _BEFORE_THE_FIRST, -1))
    return ctx.op.Slice(x, ctx.ints(last), ctx.ints(stop), ctx.ints(axes), ctx.ints(back))


@rules.numpy_evaluator("rev")
def _fold_rev(x: np.ndarray, *, dimensions: Sequence[int], **_: Any) -> np.ndarray:
    return np.flip(x, tuple(dimensions))


# ---------------------------------------------------------------------------------------- new arrays


@rules.lower("iota")
def iota(ctx: Any, *_: Any, dtype: Any, shape: Sequence[Any], dimension: int, **__: Any) -> Any:
    count = shape[dimension]
    static = all(isinstance(size, int) for size in shape)
    if static and math.prod(shape) <= _STORED_ELEMENTS:
        return ctx.constant(_fold_iota(dtype=dtype, shape=shape, dimension=dimension))
    line = _counting(ctx, count, np.dtype(dtype))
    others = [axis for axis in range(len(shape)) if axis != dimension]
    return ctx.broadcast(ctx.unsqueeze(line, others), tuple(shape))


def _counting(ctx: Any, count: Any, dtype: np.dtype) -> Any:
    """0, 1, …, count - 1."""
    if isinstance(count, int) and count <= _STORED_ELEMENTS:
        return ctx.constant(np.arange(count).astype(dtype))
    exact = dtype if dtype == np.dtype(np.int32) else np.dtype(np.int64)
    limit = ctx.cast(ctx.dim(count), exact)
    line = ctx.op.Range(ctx.constant(0, dtype=exact), limit, ctx.constant(1, dtype=exact), dims=(count,))
    line.meta[RANGE], line.meta[PROGRESSION] = (0, count - 1), (0, 1, count)
    return ctx.cast(line, dtype)


@rules.numpy_evaluator("iota")
def _fold_iota(*_: Any, dtype: Any, shape: Sequence[int], dimension: int, **__: Any) -> np.ndarray:
    shape = _static(shape)
    placed = [1] * len(shape)
    placed[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(placed), shape)


@rules.lower("empty", "empty2", "zeros_like")
def empty(ctx: Any, *_: Any, **__: Any) -> Any:
    """Zeros: what JAX's CPU backend gives for memory that it has not written."""
    (aval,) = ctx.avals_out
    return ctx.broadcast(ctx.constant(np.zeros((), aval.dtype)), aval.shape)


@rules.lower("copy", "copy_p")
def copy(ctx: Any, x: Any, **_: Any) -> Any:
    return x


@rules.numpy_evaluator("copy", "copy_p")
def _fold_copy(x: np.ndarray, **_: Any) -> np.ndarray:
    return x


@rules.lower("tie")
def tie(ctx: Any, before: Any, x: Any, **_: Any) -> Any:
    return x


@rules.lower("optimization_barrier")
def optimization_barrier(ctx: Any, *xs: Any, **_: Any) -> Any:
    return xs


@rules.lower("dce_sink", physical=True)
def dce_sink(ctx: Any, *_: Any, **__: Any) -> Any:
    return []


# ---------------------------------------------------------------------------------------- dimension values


@rules.lower("dim_as_value")
def dim_as_value(ctx: Any, *, dim: Any, **_: Any) -> Any:
    return _dimension(ctx, dim)


@rules.lower("dimension_size")
def dimension_size(ctx: Any, *_: Any, dimension: int, **__: Any) -> Any:
    return _dimension(ctx, ctx.avals_in[0].shape[dimension])


def _dimension(ctx: Any, dim: Any) -> Any:
    value = ctx.cast(ctx.dim(dim), ctx.avals_out[0].dtype)
    if ctx.known(value) is None:
        value.meta[DIMENSION] = dim
    return value


@rules.lower("shape_assertion")
def shape_assertion(ctx: Any, *_: Any, **__: Any) -> Any:
    """Nothing: the constraints on symbols are checked where the model's inputs are."""
    return []


def _static(shape: Sequence[Any]) -> tuple[int, ...]:
    if not all(isinstance(size, int | np.integer) for size in shape):
        raise NotImplementedError("a symbolic shape cannot be folded")
    return tuple(int(size) for size in shape)


@rules.complex("iota")
def _complex_iota(*_: Any, dtype: Any, shape: Sequence[Any], dimension: int, **__: Any) -> Complex:
    import jax.numpy as jnp
    from jax import lax

    real = lax.broadcasted_iota(np.empty(0, dtype).real.dtype, shape, dimension)
    return Complex(real, jnp.zeros_like(real))
