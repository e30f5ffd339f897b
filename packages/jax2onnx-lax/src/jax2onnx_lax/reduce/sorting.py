"""`sort`, `top_k` and `approx_top_k` by TopK, which leaves equal elements in the order of their indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax import Array, lax
from jax2onnx_core import Complex, Context, Dim, Rules, Value
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Form, Threshold

from jax2onnx_lax.dtypes import is_float
from jax2onnx_lax.reduce._branches import branch
from jax2onnx_lax.reduce._ordering import comparable, has_nan, has_negative_zero, is_softmax, nan_last, total_order

__all__ = ["rules"]

rules = Rules()


def _top(ctx: Context, x: Value, count: Dim, axis: int, *, largest: bool) -> tuple[Value, Value]:
    """The values and the int64 indices of TopK."""
    dims = ctx.known_dims(x)
    dims = (*dims[:axis], count, *dims[axis + 1 :])
    values, indices = ctx.op.several("TopK", x, ctx.shape((count,)), axis=axis, largest=int(largest), outputs=2)
    return ctx.with_dims(values, dims), ctx.with_dims(indices, dims)


def _take(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    return ctx.op.GatherElements(x, indices, axis=axis, dims=ctx.dims(indices))


def _order(ctx: Context, keys: Sequence[Value], axis: int, *, count: Dim | None = None, largest: bool = False) -> Value:
    """The indices of the first `count` elements by keys, the major one first, of which each is one that TopK compares.

    Stable sorts by one key after another, the last one first (the radix principle).
    """
    major, *minor = keys
    length = ctx.known_dims(major)[axis]
    order = None
    for key in (*reversed(minor), major):
        arranged = key if order is None else _take(ctx, key, order, axis)
        wanted = length if count is None or key is not major else count
        indices = _top(ctx, arranged, wanted, axis, largest=largest)[1]
        order = indices if order is None else _take(ctx, order, indices, axis)
    assert order is not None, "there is at least one key"
    return order


def _unordered(ctx: Context, *keys: Value) -> Value | None:
    """Whether a key has a NaN, which TopK need not put where JAX does."""
    return has_nan(ctx, *(key for key in keys if not ctx.guarantees("TopK", ctx.dtype(key), "nan")))


# -- sort -----------------------------------------------------------------------------------


@rules.lower("sort")
def sort(ctx: Context, *operands: Value, dimension: int, num_keys: int, **_: object) -> Sequence[Value]:
    """A stable sort in ascending order: -0.0 is equal to 0.0, NaN greater than every number."""
    length = ctx.avals_in[0].shape[dimension]
    if isinstance(length, int) and length <= 1:
        return operands
    keys = [comparable(ctx, "TopK", operand) for operand in operands[:num_keys]]
    if len(operands) == 1 and _keeps_values(ctx, operands[0]):
        return [ctx.cast(_sorted_values(ctx, keys[0], dimension), ctx.dtype(operands[0]))]
    (order,) = branch(
        ctx, _unordered(ctx, *keys),
        rare=lambda c: [_order(c, [part for key in keys for part in nan_last(c, key)], dimension)],
        usual=lambda c: [_order(c, keys, dimension)],
    )  # fmt: skip
    return [_take(ctx, operand, order, dimension) for operand in operands]


def _keeps_values(ctx: Context, x: Value) -> bool:
    """Whether `comparable` changes the type of `x` at most, so that a cast leads back."""
    return ctx.dtype(x) != np.uint64


def _sorted_values(ctx: Context, x: Value, axis: int) -> Value:
    length = ctx.known_dims(x)[axis]
    (values,) = branch(
        ctx, _unordered(ctx, x),
        rare=lambda c: [_take(c, x, _order(c, nan_last(c, x), axis), axis)],
        usual=lambda c: [_top(c, x, length, axis, largest=False)[0]],
    )  # fmt: skip
    return values


@rules.complex("sort")
def sort_complex(
    *operands: Complex | Array, dimension: int, num_keys: int, is_stable: bool
) -> Sequence[Complex | Array]:
    """Complex numbers are in lexicographic order: a complex key is two keys."""
    parts: list[Array] = []
    for operand in operands:
        parts += operand if isinstance(operand, Complex) else [operand]
    count = sum(2 if isinstance(operand, Complex) else 1 for operand in operands[:num_keys])
    rest = iter(lax.sort(parts, dimension=dimension, num_keys=count, is_stable=is_stable))
    return [Complex(next(rest), next(rest)) if isinstance(x, Complex) else next(rest) for x in operands]


# -- top_k ----------------------------------------------------------------------------------


@rules.lower("top_k")
def top_k(ctx: Context, x: Value, *, k: Dim, axis: int = -1, **_: object) -> Sequence[Value]:
    """The `k` greatest elements along an axis in descending order, and their indices.

    Floats are in IEEE 754's total order, in which -0.0 is less than 0.0, and a NaN is the greatest or the least
    number by its sign.
    """
    axis %= len(ctx.avals_in[0].shape)
    key = comparable(ctx, "TopK", x)
    top = _top_of_blocks(ctx, key, k, axis) or _top(ctx, key, k, axis, largest=True)
    if is_float(ctx.dtype(x)) and not ctx.assumes(Assumption.FINITE) and not _is_ordered(ctx, x, axis):
        top = _in_total_order(ctx, x, key, top, axis)
    values = ctx.cast(top[0], ctx.dtype(x)) if _keeps_values(ctx, x) else _take(ctx, x, top[1], axis)
    return values, ctx.cast(top[1], ctx.avals_out[1].dtype)


def _is_ordered(ctx: Context, x: Value, axis: int) -> bool:
    """Whether `x` holds no negative zero, and along the axis either no NaN or nothing else, which TopK takes for equal.

    The signs of the NaN that a softmax makes are those of the processor, and mean nothing.
    """
    return ctx.guarantees("TopK", ctx.dtype(x), "nan_rows") and is_softmax(ctx, x, axis, "jax.nn.softmax")


def _top_of_blocks(ctx: Context, x: Value, k: Dim, axis: int) -> tuple[Value, Value] | None:
    """The `k` greatest elements of a long last axis: they are in the `k` blocks whose greatest elements are greatest.

    Among equal elements the first come first: of equal blocks the first are taken, and they are put in order. None where blocks
    are no gain.
    """
    *batch, length = ctx.known_dims(x)
    if axis != len(batch) or not is_float(ctx.dtype(x)) or not isinstance(length, int):
        return None
    size = _block_size(length, k) if length >= ctx.threshold(Threshold.LONG_AXIS) else None
    if size is None or ctx.prefers(Form.TOP_K_OF_LONG_AXIS, Form.TOP_K_OF_BLOCKS) is Form.TOP_K_OF_LONG_AXIS:
        return None
    blocks = ctx.reshape(x, (*batch, length // size, size))
    greatest = ctx.op.ReduceMax(blocks, ctx.ints([-1]), keepdims=0)
    chosen = _top(ctx, greatest, k, axis, largest=True)[1]
    chosen = _top(ctx, chosen, k, axis, largest=False)[0]
    found = ctx.op.GatherND(blocks, ctx.unsqueeze(chosen, [-1]), batch_dims=axis, dims=(*batch, k, size))
    values, places = _top(ctx, ctx.reshape(found, (*batch, k * size)), k, axis, largest=True)
    number = ctx.constant(size, like=places)
    block = _take(ctx, chosen, ctx.op.Div(places, number), axis)
    return values, ctx.op.Add(ctx.op.Mul(block, number), ctx.op.Mod(places, number))


def _block_size(length: int, k: Dim) -> int | None:
    """The size of blocks by which the greatest elements are found with the least work; None where there is none."""
    if not isinstance(k, int) or k < 1:
        return None
    sizes = [size for size in range(16, 257) if length % size == 0 and 4 * k * size <= length]
    return min(sizes, key=lambda size: length // size + k * size, default=None)


def _in_total_order(ctx: Context, x: Value, key: Value, top: tuple[Value, Value], axis: int) -> tuple[Value, Value]:
    """The results of a TopK in JAX's order of floats, unless neither NaN nor negative zeros are among them.

    Args:
      ctx: the context of the rule.
      x: the floats.
      key: the same in a dtype that TopK compares.
      top: the values and indices that TopK finds in `key`.
      axis: the axis along which it looks.
    """
    nan, zero = has_nan(ctx, key), has_negative_zero(ctx, top[0])

    def exact(c: Context) -> Sequence[Value]:
        order = _order(c, total_order(c, x), axis, count=c.known_dims(top[1])[axis], largest=True)
        return _take(c, key, order, axis), order

    values, indices = branch(ctx, zero if nan is None else ctx.op.Or(nan, zero), rare=exact, usual=lambda _: top)
    return values, indices


@rules.lower("approx_top_k")
def approx_top_k(ctx: Context, x: Value, *, reduction_dimension: int, is_max_k: bool, **_: object) -> Sequence[Value]:
    """Lower `approx_top_k` exactly, as on XLA's CPU backend; without aggregation there are more results than k.

    A NaN is greater than every number.
    """
    values, indices = ctx.avals_out
    axis = reduction_dimension % len(values.shape)
    count, key = values.shape[axis], comparable(ctx, "TopK", x)

    def exact(c: Context) -> Sequence[Value]:
        order = _order(c, nan_last(c, key), axis, count=count, largest=is_max_k)
        return _take(c, key, order, axis), order

    top, order = branch(
        ctx, _unordered(ctx, key), rare=exact, usual=lambda c: _top(c, key, count, axis, largest=is_max_k)
    )
    return ctx.cast(top, values.dtype), ctx.cast(order, indices.dtype)
