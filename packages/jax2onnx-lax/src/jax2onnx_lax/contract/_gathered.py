"""`gathered_product`: products with matrices that are gathered for each row, by matrix instead of by row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jax.lax import GatherScatterMode
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import Dims, is_static
from jax2onnx_core.lowering.definitions import Definition
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.grouped import grouped_product, sorted_groups, split_rows
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.forms import Threshold

from jax2onnx_lax.indexing._index_arrays import to_index, unstack_indices
from jax2onnx_lax.indexing._start_indices import StartIndex, resolve_out_of_bounds
from jax2onnx_lax.integers._values import is_in_range

__all__ = ["GatheredMatrices", "gathered_product"]

_MOST_MATRICES = 512

CLIP, FILL = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP


@dataclasses.dataclass(frozen=True)
class GatheredMatrices:
    """An operand of a product that takes one of several matrices for each row.

    Attributes:
      table: [matrices, …], all of them.
      numbers: the number of the matrix for each row, an array of any rank.
      dims: its dimensions.
    """

    table: Value
    numbers: Value
    dims: Dims

    @staticmethod
    def from_operand(ctx: Context, value: Value) -> GatheredMatrices | None:
        """Read an operand as a gather of matrices; None where it is none, or numbers out of range are filled in for."""
        gather = ctx.definition(value)
        if gather is None or gather.primitive != "gather" or not _takes_matrices(gather):
            return None
        table, indices = gather.operands
        (index,) = unstack_indices(ctx, to_index(ctx, indices), 1)
        start, mode = StartIndex(0, 1, ctx.known_dims(table)[0], index), gather.params["mode"]
        numbers, valid = resolve_out_of_bounds(ctx, start, FILL if mode == FILL else CLIP, native=True)
        return None if valid is not None else GatheredMatrices(table, numbers, ctx.known_dims(numbers))

    @property
    def rank(self) -> int:
        """The number of axes of the operand that are rows."""
        return len(self.dims)


def _takes_matrices(gather: Definition) -> bool:
    """Whether a gather takes whole matrices along the first axis of a table, for each number of an array one."""
    numbers, (table, indices) = gather.params["dimension_numbers"], gather.avals_in
    batch = len(indices.shape) - 1
    return (
        len(table.shape) > 2 and batch > 0 and not numbers.operand_batching_dims
        and tuple(numbers.start_index_map) == tuple(numbers.collapsed_slice_dims) == (0,)
        and tuple(numbers.offset_dims) == tuple(range(batch, len(gather.aval.shape)))
        and tuple(gather.params["slice_sizes"])[1:] == tuple(table.shape)[1:]
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Axes:
    """The axes of both operands of a product with gathered matrices.

    Attributes:
      rows: for each axis of the numbers the axis of the data that is the same; None where the data are the same along it.
      free: the other axes of the data that are not contracted.
      data: the contracted axes of the data.
      matrix: the contracted axes of the table, in the same order.
      columns: its other axes.
    """

    rows: tuple[int | None, ...]
    free: tuple[int, ...]
    data: tuple[int, ...]
    matrix: tuple[int, ...]
    columns: tuple[int, ...]


def _axes(
    rank: int, table: int, data: int, batch: Sequence[tuple[int, int]], contracted: Sequence[tuple[int, int]]
) -> _Axes | None:
    """The axes, from pairs of an axis of the data and one of the gathered operand; None where matrices are not multiplied."""
    if any(own >= rank for _, own in batch) or not contracted:
        return None
    rows = {own: other for other, own in batch}
    matrix = tuple(own - rank + 1 for _, own in contracted)
    taken = {*rows.values(), *(other for other, _ in contracted)}
    return _Axes(
        tuple(rows.get(axis) for axis in range(rank)), tuple(axis for axis in range(data) if axis not in taken),
        tuple(other for other, _ in contracted), matrix, tuple(a for a in range(1, table) if a not in matrix),
    )  # fmt: skip


def gathered_product(
    ctx: Context, gathered: GatheredMatrices, data: Value, batch: Sequence[tuple[int, int]],
    contracted: Sequence[tuple[int, int]], dtype: Dtype,
) -> tuple[Value, list[tuple[str, int]]]:  # fmt: skip
    """The product by matrix: rows are sorted by the matrix that they take, and each matrix is multiplied with its own.

    Args:
      ctx: the context of the rule; it declines where the matrices are better copied for each row.
      gathered: the operand that takes matrices.
      data: the other one.
      batch: pairs of an axis of the data and the same one of the gathered operand.
      contracted: pairs of axes that are contracted.
      dtype: the element type of the multiplication.

    Returns:
      The product, and for each of its axes "data" or "gathered" with the axis of that operand.
    """
    table, dims = ctx.known_dims(gathered.table), ctx.known_dims(data)
    summed = [pair for pair in contracted if pair[1] < gathered.rank]
    inside = [pair for pair in contracted if pair[1] >= gathered.rank]
    axes = _axes(gathered.rank, len(table), len(dims), [*batch, *summed], inside)
    if axes is None:
        ctx.decline("gathered matrices are multiplied elementwise")
    count = _checked(ctx, gathered, table)
    inner, columns = (math.prod(table[a] for a in own) for own in (axes.matrix, axes.columns))
    free = [dims[a] for a in axes.free]
    matrices = ctx.reshape(ctx.transpose(gathered.table, (0, *axes.matrix, *axes.columns)), (count, inner, columns))
    if constant_tensor(matrices) is None:
        matrices = ctx.cast(matrices, dtype)
    rows = _rows(ctx, gathered, ctx.cast(data, dtype), axes, (math.prod(free), inner))
    numbers = ctx.reshape(_from_zero(ctx, gathered.numbers, count), (math.prod(gathered.dims),))
    runs = sorted_groups(ctx, numbers, count)
    ordered = split_rows(ctx, ctx.op.Gather(rows, runs.order, axis=0), runs.lengths, count)
    products = grouped_product(ctx, ordered, matrices, runs.lengths)
    joined = ctx.op.Concat(*products, axis=0, dims=(*ctx.known_dims(rows)[:-1], columns))
    product = ctx.op.Gather(joined, runs.places, axis=0)
    labels = [("gathered", axis) for axis in range(gathered.rank)] + [("data", axis) for axis in axes.free]
    labels += [("gathered", gathered.rank - 1 + axis) for axis in axes.columns]
    whole = ctx.reshape(product, (*gathered.dims, *free, *(table[a] for a in axes.columns)))
    rest = [label for label in labels if label not in [("gathered", own) for _, own in summed]]
    return ctx.op.ReduceSum(whole, ctx.ints([own for _, own in summed]), keepdims=0) if summed else whole, rest


def _checked(ctx: Context, gathered: GatheredMatrices, table: Dims) -> int:
    """The number of matrices; declines where a copy of a matrix for each row is the better form, or sizes are unknown."""
    sizes = [dim for dim in table if isinstance(dim, int)]
    if len(sizes) != len(table) or not 1 < sizes[0] <= _MOST_MATRICES or 0 in sizes:
        ctx.decline("there are too many gathered matrices for one product each, or their sizes are not known")
    if not is_in_range(ctx, gathered.numbers, -sizes[0], sizes[0] - 1):
        ctx.decline("the numbers of gathered matrices may be out of range")
    copied = math.prod(sizes[1:]) * _least_rows(gathered.dims)
    if copied <= (8 + sizes[0]) * ctx.threshold(Threshold.OPERATOR_CALL):
        ctx.decline("gathered matrices are so small that copying them takes less time than sorting rows")
    return sizes[0]


def _from_zero(ctx: Context, numbers: Value, count: int) -> Value:
    """Numbers as int64, negative ones, which Gather counts from the last matrix on, counted from the first."""
    wide = ctx.cast(numbers, np.int64)
    return wide if is_in_range(ctx, numbers, 0, count - 1) else ctx.op.Mod(wide, ctx.constant(count, like=wide))


def _least_rows(dims: Dims) -> int:
    """A number of rows to reckon with."""
    return math.prod(int(dim) if is_static(dim) else 2 for dim in dims)


def _rows(ctx: Context, gathered: GatheredMatrices, data: Value, axes: _Axes, matrix: tuple[Dim, Dim]) -> Value:
    """[rows, inner], or [rows, free, inner] where several rows of data take the same matrix."""
    dims = ctx.known_dims(data)
    order = [axis for axis in axes.rows if axis is not None]
    moved = ctx.transpose(data, (*order, *axes.free, *axes.data))
    own = tuple(1 if axis is None else dims[axis] for axis in axes.rows)
    wide = ctx.broadcast(ctx.reshape(moved, (*own, *matrix)), (*gathered.dims, *matrix))
    count = math.prod(gathered.dims)
    return ctx.reshape(wide, (count, matrix[1]) if matrix[0] == 1 else (count, *matrix))
