"""`dot_general` as MatMul, Gemm or MatMulInteger with the fewest transposes; `ragged_dot`.

Einsum is not used: ONNX Runtime runs it 1.2 to 14 times slower than these.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax._compat import ragged_dot_general
from jax2onnx_lax.complex.arrays import multiply_in_parts, on_arrays
from jax2onnx_lax.reduce.ordering import is_float

__all__ = ["rules"]

rules = Rules()

Array = Any  # a JAX array, traced or not
Dims = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Side:
    """One operand: its value, its dimensions, and which of its axes are batch, contracted and free."""

    value: Any
    dims: Dims
    batch: tuple[int, ...]
    contracted: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        return tuple(i for i in range(len(self.dims)) if i not in self.batch and i not in self.contracted)

    def sizes(self, axes: Sequence[int]) -> Dims:
        return tuple(self.dims[i] for i in axes)


# -- element types --------------------------------------------------------------------------


def _is_zero(dim: Any) -> bool:
    return isinstance(dim, int) and dim == 0


@rules.lower("dot_general")
def dot_general(ctx: Any, lhs: Any, rhs: Any, *, dimension_numbers: Any, **_: Any) -> Any:
    (lhs_contracted, rhs_contracted), (lhs_batch, rhs_batch) = dimension_numbers
    left = Side(lhs, tuple(ctx.avals_in[0].shape), tuple(lhs_batch), tuple(lhs_contracted))
    right = Side(rhs, tuple(ctx.avals_in[1].shape), tuple(rhs_batch), tuple(rhs_contracted))
    out = np.dtype(ctx.avals_out[0].dtype)
    if any(_is_zero(dim) for dim in (*left.dims, *right.dims)):
        return ctx.broadcast(ctx.constant(0, dtype=out), ctx.avals_out[0].shape)
    left, right, narrow = _converted(ctx, left, right, out)
    return ctx.cast(_product(ctx, left, right, ctx.avals_out[0].shape, narrow), out)


def _converted(ctx: Any, left: Side, right: Side, out: np.dtype[Any]) -> tuple[Side, Side, bool]:
    """Both sides in one type whose product is exact for `out`; whether that is a type of 8-bit integers."""
    types = np.dtype(ctx.dtype(left.value)), np.dtype(ctx.dtype(right.value))
    multiplied = np.dtype(_multiplied_in(*types, out))
    narrow = multiplied.itemsize == 1
    if narrow:
        wanted = tuple(np.dtype(np.uint8) if dtype == np.bool_ else dtype for dtype in types)
    else:
        wanted = multiplied, multiplied
    sides = (dataclasses.replace(side, value=ctx.cast(side.value, dtype))
             for side, dtype in zip((left, right), wanted, strict=True))  # fmt: skip
    return (*sides, narrow)


_BYTES = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.bool_))


def _multiplied_in(left: np.dtype[Any], right: np.dtype[Any], out: np.dtype[Any]) -> Any:
    """The element type of the multiplication; int8 stands for MatMulInteger on bytes.

    XLA accumulates half-precision products in float32 and integer ones modulo the result's range.
    """
    if is_float(out) or is_float(left) or is_float(right):
        widest = max((t for t in (left, right, out) if is_float(t)), key=lambda t: t.itemsize)
        same = left == right == out and widest.itemsize > 1
        return np.float64 if widest.itemsize == 8 else widest if same else np.float32
    if left in _BYTES and right in _BYTES and (out.itemsize <= 4):
        return np.int8
    if out.itemsize <= 4 and left.itemsize <= 4 and right.itemsize <= 4:
        return out if out in (np.int32, np.uint32) else np.int32
    return out if out.itemsize == 8 else np.int64


# -- the product ----------------------------------------------------------------------------


def _product(ctx: Any, left: Side, right: Side, out: Dims, narrow: bool) -> Any:
    if not left.contracted:
        return _outer_product(ctx, left, right, narrow)
    simple = _narrow_matrices(ctx, left, right) if narrow else _without_batch(ctx, left, right, out)
    return _batched(ctx, left, right, out, narrow) if simple is None else simple


def _outer_product(ctx: Any, left: Side, right: Side, narrow: bool) -> Any:
    """Nothing is contracted: an elementwise product of [batch, left…, 1…] and [batch, 1…, right…]."""
    lhs = _arranged(ctx, left, (*left.batch, *left.free))
    rhs = _arranged(ctx, right, (*right.batch, *right.free))
    lhs = ctx.reshape(lhs, (*left.sizes(left.batch), *left.sizes(left.free), *(1 for _ in right.free)))
    if right.batch:
        rhs = ctx.reshape(rhs, (*right.sizes(right.batch), *(1 for _ in left.free), *right.sizes(right.free)))
    if narrow:
        lhs, rhs = ctx.cast(lhs, np.int32), ctx.cast(rhs, np.int32)
    return ctx.op.Mul(lhs, rhs)


def _arranged(ctx: Any, side: Side, axes: Sequence[int]) -> Any:
    """`side` transposed to `axes`; where only axes of size 1 would move, reshaped."""
    moved = [i for i in axes if side.dims[i] != 1]
    if moved == sorted(moved):
        return ctx.reshape(side.value, side.sizes(axes))
    return ctx.transpose(side.value, axes)


def _narrow_matrices(ctx: Any, left: Side, right: Side) -> Any:
    """MatMulInteger of rows with a matrix, else None."""
    if left.batch or len(left.dims) < 2 or len(right.dims) != 2:
        return None
    if left.contracted != (len(left.dims) - 1,) or right.contracted != (0,):
        return None
    return ctx.op.MatMulInteger(left.value, right.value)


def _without_batch(ctx: Any, left: Side, right: Side, out: Dims) -> Any:
    """One MatMul or Gemm without a transpose, where ONNX's operators can say it; else None."""
    if left.batch or len(left.contracted) != 1:
        return None
    l_last = left.contracted[0] == len(left.dims) - 1
    r_first = right.contracted[0] == max(len(right.dims) - 2, 0)
    if l_last and r_first and len(right.dims) <= 2:
        return ctx.op.MatMul(left.value, right.value)
    if len(left.dims) == 1 and r_first:
        return ctx.op.MatMul(left.value, right.value)
    if len(left.dims) == 1 and right.contracted[0] == len(right.dims) - 1:
        return ctx.op.MatMul(right.value, left.value)
    if not ctx.supports("Gemm", ctx.dtype(left.value)) or not is_float(ctx.dtype(left.value)):
        return None
    if len(left.dims) == len(right.dims) == 2:
        return ctx.op.Gemm(left.value, right.value, transA=int(not l_last), transB=int(not r_first))
    if l_last and len(right.dims) == 2 and ctx.known(right.value) is not None:
        rows = ctx.reshape(left.value, (math.prod(left.dims[:-1]), left.dims[-1]))
        product = ctx.op.Gemm(rows, right.value, transB=1, dims=(math.prod(left.dims[:-1]), right.dims[0]))
        return ctx.reshape(product, out)
    return None


def _batched(ctx: Any, left: Side, right: Side, out: Dims, narrow: bool) -> Any:
    """The general product: [batch, rows, contracted] · [batch, contracted, columns], reshaped to `out`."""
    left, right = _same_order(left, right)
    batch = left.sizes(left.batch)
    contracted = math.prod(left.sizes(left.contracted))
    rows, columns = left.sizes(left.free), right.sizes(right.free)
    lhs = _arranged(ctx, left, (*left.batch, *left.free, *left.contracted))
    rhs = _arranged(ctx, right, (*right.batch, *right.contracted, *right.free))
    left_rows: Dims = (math.prod(rows),) if batch or narrow or len(columns) != 1 else rows
    lhs = ctx.reshape(lhs, (*batch, *left_rows, contracted))
    rhs = ctx.reshape(rhs, (*batch, contracted, math.prod(columns)))
    op_type = "MatMulInteger" if narrow else "MatMul"
    return ctx.reshape(ctx.op(op_type, lhs, rhs, dims=(*batch, *left_rows, math.prod(columns))), out)


def _same_order(left: Side, right: Side) -> tuple[Side, Side]:
    """The contracted axes in the order that leaves more operands as they are."""

    def moves(order: Sequence[int]) -> int:
        l_axes = (*left.batch, *left.free, *(left.contracted[i] for i in order))
        r_axes = (*right.batch, *(right.contracted[i] for i in order), *right.free)
        return (list(l_axes) != sorted(l_axes)) + (list(r_axes) != sorted(r_axes))

    pairs = range(len(left.contracted))
    by_left = sorted(pairs, key=lambda i: left.contracted[i])
    by_right = sorted(pairs, key=lambda i: right.contracted[i])
    order = min(by_left, by_right, key=moves)
    return (dataclasses.replace(left, contracted=tuple(left.contracted[i] for i in order)),
            dataclasses.replace(right, contracted=tuple(right.contracted[i] for i in order)))  # fmt: skip


# -- ragged ---------------------------------------------------------------------------------

_MOST_GROUPS = 64


@rules.lower("ragged_dot_general")
def ragged_dot(ctx: Any, lhs: Any, rhs: Any, group_sizes: Any, *, ragged_dot_dimension_numbers: Any, **_: Any) -> Any:
    """[rows, k] · [groups, k, n] by runs of rows: Split, one MatMul for each group, Concat."""
    numbers = ragged_dot_dimension_numbers
    plain = ((1,), (1,)), ((), ())
    found = tuple(tuple(map(tuple, pair)) for pair in numbers.dot_dimension_numbers)
    lhs_ragged, rhs_group = tuple(numbers.lhs_ragged_dimensions), tuple(numbers.rhs_group_dimensions)
    groups, sizes_rank = ctx.avals_in[1].shape[0], len(ctx.avals_in[2].shape)
    if (found, lhs_ragged, rhs_group, sizes_rank) != (plain, (0,), (0,), 1) or len(ctx.avals_in[0].shape) != 2:
        ctx.decline("not rows by groups of matrices")
    if not isinstance(groups, int) or not 0 < groups <= _MOST_GROUPS:
        ctx.decline("too many groups for one MatMul each")
    dtype, out = ctx.dtype(lhs), ctx.avals_out[0]
    if not dtype == ctx.dtype(rhs) == out.dtype or not is_float(dtype) or not ctx.supports("MatMul", dtype):
        ctx.decline("mixed or integer element types")
    rows, inner = ctx.avals_in[0].shape
    if _is_zero(inner) or _is_zero(rows):
        ctx.decline("nothing to multiply")
    return _by_runs(ctx, lhs, rhs, _run_lengths(ctx, group_sizes, rows), groups, out.shape[1])


def _run_lengths(ctx: Any, group_sizes: Any, rows: Any) -> Any:
    """The rows of each group and at the end of none, adding up to `rows` whatever the sizes are."""
    ends = ctx.op.CumSum(ctx.cast(group_sizes, np.int64), ctx.constant(0, dtype=np.int64))
    ends = ctx.op.Clip(ends, ctx.constant(0, dtype=np.int64), ctx.dim(rows))
    last = ctx.reshape(ctx.dim(rows), (1,))
    bounds = ctx.concat([ctx.ints([0]), ends, last], 0)
    count = ctx.avals_in[2].shape[0] + 1
    return ctx.op.Sub(ctx.slice(bounds, [1], [count + 1], [0], dims=(count,)),
                      ctx.slice(bounds, [0], [count], [0], dims=(count,)))  # fmt: skip


def _by_runs(ctx: Any, lhs: Any, rhs: Any, lengths: Any, groups: int, columns: Any) -> Any:
    runs = ctx.op("Split", lhs, lengths, axis=0, outputs=groups + 1)
    products = [ctx.op.MatMul(run, ctx.op.Gather(rhs, ctx.constant(group, dtype=np.int64), axis=0))
                for group, run in enumerate(runs[:-1])]  # fmt: skip
    nothing = ctx.constant(np.zeros(1), dtype=ctx.dtype(lhs))
    rest = ctx.op.Expand(nothing, ctx.op.Concat(ctx.op.Shape(runs[-1], end=1), ctx.shape((columns,)), axis=0))
    return ctx.op.Concat(*products, rest, axis=0)


@rules.decompose("ragged_dot_general")
def ragged_dot_by_masks(lhs: Array, rhs: Array, group_sizes: Array, **params: Any) -> Array:
    """Every kind of ragged product: operands masked by group, contracted over the groups too."""
    return ragged_dot_general(lhs, rhs, group_sizes, **params)


# -- complex --------------------------------------------------------------------------------


@rules.complex("dot_general")
def complex_dot_general(lhs: Any, rhs: Any, **params: Any) -> Any:
    return multiply_in_parts(lax.dot_general_p, lhs, rhs, **params)


rules.complex("ragged_dot_general", on_arrays(ragged_dot_by_masks))
