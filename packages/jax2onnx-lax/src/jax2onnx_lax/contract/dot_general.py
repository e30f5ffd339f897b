"""`dot_general` as MatMul, Gemm or MatMulInteger with the fewest transposes; `ragged_dot`.

Einsum is not used: runtimes have no fast kernel for it in general.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jax import Array, lax
from jax2onnx_core import Complex, Context, Dim, Rules, Value
from jax2onnx_core.jaxprs import Dims, is_positive, is_static
from jax2onnx_graph.build.builder import DtypeLike
from jax2onnx_graph.build.grouped import grouped_product, split_rows
from jax2onnx_graph.facts.values import constant_tensor

from jax2onnx_lax._compat import ragged_dot_general
from jax2onnx_lax.complex._arrays import multiply_in_parts, on_arrays
from jax2onnx_lax.contract._gathered import GatheredMatrices, gathered_product
from jax2onnx_lax.dtypes import Dtype, is_float

__all__ = ["rules"]

rules = Rules()


@dataclasses.dataclass(frozen=True)
class _Side:
    """One operand of a product: its value, its dimensions, and its batch, contracted and free axes."""

    value: Value
    dims: Dims
    batch: tuple[int, ...]
    contracted: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        """The axes that are neither batch nor contracted."""
        return tuple(i for i in range(len(self.dims)) if i not in self.batch and i not in self.contracted)

    def sizes(self, axes: Sequence[int]) -> Dims:
        """The dimensions of the axes."""
        return tuple(self.dims[i] for i in axes)

    def cast(self, ctx: Context, dtype: Dtype) -> _Side:
        """The same operand in another element type."""
        return dataclasses.replace(self, value=ctx.cast(self.value, dtype))


def _is_zero(dim: Dim) -> bool:
    return is_static(dim) and dim == 0


@rules.lower("dot_general")
def dot_general(
    ctx: Context, lhs: Value, rhs: Value, *, dimension_numbers: lax.DotDimensionNumbers, **_: object
) -> Value:
    """Lower a product that contracts any axes."""
    (lhs_contracted, rhs_contracted), (lhs_batch, rhs_batch) = dimension_numbers
    left = _Side(lhs, ctx.avals_in[0].shape, tuple(lhs_batch), tuple(lhs_contracted))
    right = _Side(rhs, ctx.avals_in[1].shape, tuple(rhs_batch), tuple(rhs_contracted))
    out = ctx.avals_out[0]
    if any(_is_zero(dim) for dim in (*left.dims, *right.dims)):
        return ctx.broadcast(ctx.constant(0, dtype=out.dtype), out.shape)
    types = ctx.dtype(lhs), ctx.dtype(rhs)
    if _is_product_of_bytes(ctx, *types, out.dtype):
        op_type, types = "MatMulInteger", (_byte_type(types[0]), _byte_type(types[1]))
    else:
        common = _multiplied_in(*types, out.dtype)
        if not _is_right_if_empty(ctx, "MatMul", common, left):
            common = _signed(common)
        op_type, types = "MatMul", (common, common)
    left, right = (side.cast(ctx, dtype) for side, dtype in zip((left, right), types, strict=True))
    make = _byte_product if op_type == "MatMulInteger" else _product
    product = make(ctx, left, right, out.shape)
    if not all(_is_right_if_empty(ctx, op_type, dtype, left) for dtype in types):
        count = ctx.dim(math.prod(left.sizes(left.contracted)))
        product = ctx.op.Where(ctx.op.Equal(count, ctx.constant(0, like=count)), ctx.constant(0, like=product), product)
    return ctx.cast(product, out.dtype)


@rules.lower("dot_general")
def dot_general_in_float16(
    ctx: Context, lhs: Value, rhs: Value, *, dimension_numbers: lax.DotDimensionNumbers, precision: object, **_: object
) -> Value:
    """The algorithm that rounds operands and result to float16; JAX's CPU backend has no other that changes values."""
    if precision is not lax.DotAlgorithmPreset.F16_F16_F16:
        ctx.pass_on("no algorithm that rounds")

    def rounded(x: Array) -> Array:
        # A conversion to float16 and back need not round: a runtime may leave both out.
        return lax.reduce_precision(x, exponent_bits=5, mantissa_bits=10)

    def product(x: Array, y: Array) -> Array:
        return rounded(lax.dot_general(rounded(x), rounded(y), dimension_numbers)).astype(ctx.avals_out[0].dtype)

    return ctx.jax(product, lhs, rhs)


@rules.lower("dot_general")
def dot_general_of_gathered_matrices(
    ctx: Context, lhs: Value, rhs: Value, *, dimension_numbers: lax.DotDimensionNumbers, precision: object, **_: object
) -> Value:
    """A product with matrices that are gathered for each row, as mixtures of experts take those of the chosen ones."""
    if isinstance(precision, lax.DotAlgorithmPreset):
        ctx.pass_on("an algorithm is asked for")
    (contracted, batch), values, out = dimension_numbers, (lhs, rhs), ctx.avals_out[0]
    found = [GatheredMatrices.from_operand(ctx, value) for value in values]
    side = 1 if found[1] is not None else 0
    gathered, data = found[side], values[1 - side]
    multiplied = _multiplied_in(ctx.dtype(lhs), ctx.dtype(rhs), out.dtype)
    if gathered is None or found[1 - side] is not None or not is_float(multiplied):
        ctx.pass_on("no gathered matrices")
    pairs = [[*zip(one[1 - side], one[side], strict=True)] for one in (batch, contracted)]
    product, labels = gathered_product(ctx, gathered, data, pairs[0], pairs[1], multiplied)
    names = ("gathered", "data") if side == 0 else ("data", "gathered")
    order = [labels.index(("gathered", own)) for _, own in pairs[0]]
    for name in names:
        order += [place for place, (of, _) in enumerate(labels) if of == name and place not in order]
    return ctx.cast(ctx.transpose(product, order), out.dtype)


def _is_right_if_empty(ctx: Context, op_type: str, dtype: Dtype, side: _Side) -> bool:
    """Whether the target gives 0 where the contracted axes of an operand are empty, or they never are."""
    return all(map(is_positive, side.sizes(side.contracted))) or ctx.guarantees(op_type, dtype, "empty")


# -- element types --------------------------------------------------------------------------

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.bool_))


def _byte_type(dtype: Dtype) -> Dtype:
    """The type in which MatMulInteger takes bytes and booleans."""
    return np.dtype(np.uint8) if dtype == np.bool_ else dtype


def _is_product_of_bytes(ctx: Context, left: Dtype, right: Dtype, out: Dtype) -> bool:
    """Whether MatMulInteger computes the product: of bytes, exactly or modulo the range of the result."""
    if left not in _BYTES or right not in _BYTES or is_float(out) or out.itemsize > 4:
        return False
    return all(ctx.supports("MatMulInteger", _byte_type(dtype)) for dtype in (left, right))


def _signed(dtype: Dtype) -> Dtype:
    """The signed integers of the same width in the place of unsigned ones, which hold the same numbers modulo 2ⁿ."""
    return np.dtype(f"int{8 * dtype.itemsize}") if dtype.kind == "u" else dtype


def _multiplied_in(left: Dtype, right: Dtype, out: Dtype) -> Dtype:
    """The element type of the multiplication.

    XLA accumulates half-precision products in float32 and integer ones modulo the result's range.
    """
    if is_float(out) or is_float(left) or is_float(right):
        widest = max((t for t in (left, right, out) if is_float(t)), key=lambda t: t.itemsize)
        if widest.itemsize == 8 or (left == right == out and widest.itemsize > 1):
            return widest
        return np.dtype(np.float32)
    if out.itemsize <= 4 and left.itemsize <= 4 and right.itemsize <= 4:
        return out if out == np.uint32 else np.dtype(np.int32)
    return out if out.itemsize == 8 else np.dtype(np.int64)


# -- the product ----------------------------------------------------------------------------


def _product(ctx: Context, left: _Side, right: _Side, out: Dims) -> Value:
    """The product of operands of one type; `out` is its shape."""
    if not left.contracted:
        return _outer_product(ctx, left, right)
    product = _unbatched_product(ctx, left, right, out)
    if product is not None:
        return product
    if _is_weight_in_front(left, right):
        turned = _product(ctx, right, left, (*right.sizes(right.free), *left.sizes(left.free)))
        count = len(right.free)
        return ctx.transpose(turned, [*range(count, count + len(left.free)), *range(count)])
    return _general_product(ctx, "MatMul", left, right, out)


def _is_weight_in_front(left: _Side, right: _Side) -> bool:
    """Whether a constant is multiplied by the last axes of something computed, whose rows it can be multiplied to instead.

    The result is transposed then, in place of the operand; what einsum computes next transposes it back in general.
    """
    if left.batch or constant_tensor(left.value) is None or constant_tensor(right.value) is not None:
        return False
    last = range(len(right.dims) - len(right.contracted), len(right.dims))
    return sorted(right.contracted) == [*last] and len(right.free) > 1


def _byte_product(ctx: Context, left: _Side, right: _Side, out: Dims) -> Value:
    """The product of bytes, as int32."""
    if not left.contracted:
        int32 = np.dtype(np.int32)
        return _outer_product(ctx, left, right, int32)
    return _general_product(ctx, "MatMulInteger", left, right, out)


def _outer_product(ctx: Context, left: _Side, right: _Side, dtype: Dtype | None = None) -> Value:
    """A product that contracts nothing: [batch, left…, 1…] times [batch, 1…, right…], elementwise, in `dtype`."""
    lhs = _arranged(ctx, left, (*left.batch, *left.free))
    rhs = _arranged(ctx, right, (*right.batch, *right.free))
    lhs = ctx.reshape(lhs, (*left.sizes(left.batch), *left.sizes(left.free), *(1 for _ in right.free)))
    if right.batch:
        rhs = ctx.reshape(rhs, (*right.sizes(right.batch), *(1 for _ in left.free), *right.sizes(right.free)))
    if dtype is not None:
        lhs, rhs = ctx.cast(lhs, dtype), ctx.cast(rhs, dtype)
    return ctx.op.Mul(lhs, rhs)


def _arranged(ctx: Context, side: _Side, axes: Sequence[int]) -> Value:
    """`side` transposed to `axes`; where only axes of size 1 would move, reshaped."""
    moved = [i for i in axes if side.dims[i] != 1]
    if moved == sorted(moved):
        return ctx.reshape(side.value, side.sizes(axes))
    return ctx.transpose(side.value, axes)


def _unbatched_product(ctx: Context, left: _Side, right: _Side, out: Dims) -> Value | None:
    """The product as one MatMul or Gemm without a transpose, where these operators can compute it; else None."""
    if left.batch or len(left.contracted) != 1:
        return None
    if len(left.dims) > len(right.dims) == 1:
        left, right = right, left
    l_last = left.contracted[0] == len(left.dims) - 1
    r_first = right.contracted[0] == max(len(right.dims) - 2, 0)
    dtype = ctx.dtype(left.value)
    if 1 in (len(left.dims), len(right.dims)) and not _may_multiply_vector(ctx, dtype, out):
        return None
    if r_first and l_last and len(left.dims) > 1 and (table := _tied_table(ctx, right)) is not None:
        return _rows_by_columns(ctx, left, _Side(table, right.dims[::-1], (), (1,)), out)
    if r_first and (len(left.dims) == 1 or (l_last and len(right.dims) <= 2)):
        return ctx.op.MatMul(left.value, right.value)
    if len(left.dims) == 1 and right.contracted[0] == len(right.dims) - 1:
        return _matrix_by_vector(ctx, right, left, out)
    if len(right.dims) != 2 or not is_float(dtype) or not ctx.supports("Gemm", dtype):
        return None
    if len(left.dims) == 2:
        return ctx.op.Gemm(left.value, right.value, transA=int(not l_last), transB=int(not r_first))
    return _rows_by_columns(ctx, left, right, out) if l_last and constant_tensor(right.value) is not None else None


def _matrix_by_vector(ctx: Context, matrix: _Side, vector: _Side, out: Dims) -> Value:
    """[rows…, k] · [k] with one row or column in place of the vector, by which runtimes multiply each row alone."""
    dtype = ctx.dtype(vector.value)
    if len(matrix.dims) == 2 and is_float(dtype) and ctx.supports("Gemm", dtype):
        return _rows_by_columns(ctx, vector, matrix, out)
    column = ctx.unsqueeze(vector.value, [1])
    return ctx.squeeze(ctx.op.MatMul(matrix.value, column), [len(matrix.dims) - 1])


def _may_multiply_vector(ctx: Context, dtype: Dtype, out: Dims) -> bool:
    """Whether MatMul takes a vector, by rows or columns of which there may be none."""
    return all(map(is_positive, out)) or ctx.guarantees("MatMul", dtype, "empty")


def _tied_table(ctx: Context, right: _Side) -> Value | None:
    """The weight that is read before this product of its transpose, as a table of embeddings is: it is stored once."""
    table = ctx.transposed_weight(right.value) if ctx.supports("Gemm", ctx.dtype(right.value)) else None
    return table if table is not None and table.uses() else None


def _rows_by_columns(ctx: Context, left: _Side, right: _Side, out: Dims) -> Value:
    """[rows…, k] · [columns, k] by Gemm, which reads a constant of that layout as it is."""
    rows = math.prod(left.dims[:-1])
    matrix = ctx.reshape(left.value, (rows, left.dims[-1]))
    return ctx.reshape(ctx.op.Gemm(matrix, right.value, transB=1, dims=(rows, right.dims[0])), out)


def _general_product(ctx: Context, op_type: str, left: _Side, right: _Side, out: Dims) -> Value:
    """[batch, rows, contracted] · [batch, contracted, columns], reshaped to `out`."""
    left, right = _same_order(left, right)
    batch = left.sizes(left.batch)
    contracted = math.prod(left.sizes(left.contracted))
    rows, columns = left.sizes(left.free), right.sizes(right.free)
    lhs = _arranged(ctx, left, (*left.batch, *left.free, *left.contracted))
    rhs = _arranged(ctx, right, (*right.batch, *right.contracted, *right.free))
    keeps_rows = not batch and len(columns) == 1
    left_rows: Dims = rows if keeps_rows else (math.prod(rows),)
    lhs = ctx.reshape(lhs, (*batch, *left_rows, contracted))
    rhs = ctx.reshape(rhs, (*batch, contracted, math.prod(columns)))
    return ctx.reshape(ctx.op(op_type, lhs, rhs, dims=(*batch, *left_rows, math.prod(columns))), out)


def _same_order(left: _Side, right: _Side) -> tuple[_Side, _Side]:
    """The contracted axes in the order that leaves more operands as they are."""

    def moves(order: Sequence[int]) -> int:
        l_axes = [*left.batch, *left.free, *(left.contracted[i] for i in order)]
        r_axes = [*right.batch, *(right.contracted[i] for i in order), *right.free]
        return (l_axes != sorted(l_axes)) + (r_axes != sorted(r_axes))

    pairs = range(len(left.contracted))
    by_left = sorted(pairs, key=lambda i: left.contracted[i])
    by_right = sorted(pairs, key=lambda i: right.contracted[i])
    order = min(by_left, by_right, key=moves)
    return (dataclasses.replace(left, contracted=tuple(left.contracted[i] for i in order)),
            dataclasses.replace(right, contracted=tuple(right.contracted[i] for i in order)))  # fmt: skip


# -- ragged ---------------------------------------------------------------------------------

_MOST_GROUPS = 512


@rules.lower("ragged_dot_general")
def ragged_dot(
    ctx: Context, lhs: Value, rhs: Value, group_sizes: Value, *,
    ragged_dot_dimension_numbers: lax.RaggedDotDimensionNumbers, **_: object,
) -> Value:  # fmt: skip
    """Two matrices, of which the rows or the contracted axis come in runs: Split, one MatMul for each run, Concat."""
    numbers = ragged_dot_dimension_numbers
    (contracted, batch), ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions[0]
    if any(map(len, batch)) or len(ctx.avals_in[2].shape) != 1 or len(contracted[0]) != 1:
        ctx.pass_on("batched, or several contracted axes")
    groups, dtype, out = ctx.avals_in[2].shape[0], ctx.dtype(lhs), ctx.avals_out[0]
    if not is_static(groups) or not 0 < groups <= _MOST_GROUPS:
        ctx.decline("too many groups for one MatMul each")
    multiplied = _multiplied_in(dtype, ctx.dtype(rhs), out.dtype)
    if not is_float(multiplied) or not ctx.supports("MatMul", multiplied):
        ctx.pass_on("integer element types")
    if any(_is_zero(dim) for aval in ctx.avals_in for dim in aval.shape):
        ctx.pass_on("nothing to multiply")
    (left,), (right,) = contracted
    if ragged == left:
        matrices = _matrix_of(ctx, lhs, left, multiplied), _matrix_of(ctx, rhs, right, multiplied)
        product = _by_contracted_runs(ctx, *matrices, group_sizes, groups)
    elif len(ctx.avals_in[0].shape) == 2 and len(ctx.avals_in[1].shape) == 3:
        (group,) = numbers.rhs_group_dimensions
        columns = 3 - right - group
        stacked = ctx.transpose(rhs, (group, right, columns))
        rows = ctx.cast(ctx.transpose(lhs, (ragged, left)), multiplied)
        if constant_tensor(stacked) is None:
            stacked = ctx.cast(stacked, multiplied)
        product = _by_runs(ctx, rows, stacked, group_sizes, groups, out.shape[1])
    else:
        ctx.pass_on("more than one axis of rows or columns")
    return ctx.cast(product, out.dtype)


def _matrix_of(ctx: Context, value: Value, first: int, dtype: Dtype) -> Value:
    """A matrix with the axis `first` in front."""
    if len(ctx.known_dims(value)) != 2:
        ctx.pass_on("not two matrices")
    return ctx.cast(ctx.transpose(value, (first, 1 - first)), dtype)


def _run_lengths(ctx: Context, group_sizes: Value, rows: Dim) -> Value:
    """The rows of each group and, last, of no group, adding up to `rows` whatever the sizes are."""
    ends = ctx.op.CumSum(ctx.cast(group_sizes, np.int64), ctx.constant(0, dtype=np.int64))
    ends = ctx.op.Clip(ends, ctx.constant(0, dtype=np.int64), ctx.dim(rows))
    last = ctx.reshape(ctx.dim(rows), (1,))
    bounds = ctx.concat([ctx.ints([0]), ends, last], 0)
    count = ctx.avals_in[2].shape[0] + 1
    return ctx.op.Sub(ctx.slice(bounds, [1], [count + 1], [0], dims=(count,)),
                      ctx.slice(bounds, [0], [count], [0], dims=(count,)))  # fmt: skip


def _by_runs(ctx: Context, rows: Value, matrices: Value, group_sizes: Value, count: int, columns: Dim) -> Value:
    """[rows, k] · [groups, k, n]: each run of rows times the matrix of its group, and zeros for the rows of no group."""
    lengths = _run_lengths(ctx, group_sizes, ctx.known_dims(rows)[0])
    runs = split_rows(ctx, rows, lengths, count + 1)
    products = grouped_product(ctx, runs, matrices, lengths)
    nothing = ctx.constant(np.zeros(1), dtype=ctx.dtype(rows))
    rest = ctx.op.Expand(nothing, ctx.op.Concat(ctx.op.Shape(runs[-1], end=1), ctx.shape((columns,)), axis=0))
    return ctx.op.Concat(*products, rest, axis=0)


def _by_contracted_runs(ctx: Context, lhs: Value, rhs: Value, group_sizes: Value, count: int) -> Value:
    """[k, m] · [k, n] by runs of the contracted axis: [groups, m, n]."""
    (inner, rows), (_, columns) = ctx.known_dims(lhs), ctx.known_dims(rhs)
    lengths = _run_lengths(ctx, group_sizes, inner)
    left = split_rows(ctx, ctx.transpose(lhs, (1, 0)), lengths, count + 1, axis=1)
    right = split_rows(ctx, rhs, lengths, count + 1)
    products = [ctx.op.MatMul(a, b, dims=(rows, columns)) for a, b in zip(left[:-1], right[:-1], strict=True)]
    product = ctx.reshape(ctx.op.Concat(*products, axis=0, dims=(count * rows, columns)), (count, rows, columns))
    if ctx.guarantees("MatMul", ctx.dtype(lhs), "empty"):
        return product
    is_empty = ctx.op.Equal(ctx.slice(lengths, [0], [count], [0], dims=(count,)), ctx.ints([0]))
    return ctx.op.Where(ctx.reshape(is_empty, (count, 1, 1)), ctx.constant(0, like=product), product)


@rules.decompose("ragged_dot_general")
def ragged_dot_by_masks(lhs: Array, rhs: Array, group_sizes: Array, **params: object) -> Array:
    """Every kind of ragged product: operands masked by group, contracted over the groups too."""
    return ragged_dot_general(lhs, rhs, group_sizes, **params)


# -- complex --------------------------------------------------------------------------------


@rules.complex("dot_general")
def complex_dot_general(
    lhs: Complex | Array, rhs: Complex | Array, *, preferred_element_type: DtypeLike | None = None, **params: object
) -> Complex:
    """The product of the real and imaginary parts."""
    return multiply_in_parts(lax.dot_general_p, lhs, rhs, preferred_element_type=preferred_element_type, **params)


rules.complex("ragged_dot_general", on_arrays(ragged_dot_by_masks))
