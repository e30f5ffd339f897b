"""`grouped_product`: runs of rows, each times a matrix of its own, as mixtures of experts compute them; `sorted_groups`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.builder import GraphBuilder, Value
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.forms import Threshold

__all__ = ["SortedGroups", "grouped_product", "sorted_groups", "split_rows"]


@dataclasses.dataclass(frozen=True)
class SortedGroups:
    """Rows of which each belongs to a group, those of the first group first.

    Attributes:
      numbers: int64[rows], the group of each in that order.
      order: int64[rows], the place of each before.
      places: int64[rows], the place that each row gets.
      lengths: int64[groups], the number of rows of each group.
    """

    numbers: Value
    order: Value
    places: Value
    lengths: Value


def sorted_groups(builder: GraphBuilder, numbers: Value, groups: int) -> SortedGroups:
    """Sort rows by group.

    Args:
      builder: writes the nodes.
      numbers: int64[rows], the group of each row.
      groups: the number of groups, which are numbered from 0.
    """
    (count,) = builder.known_dims(numbers)
    every = builder.ints([count]) if isinstance(count, int) else builder.op.Shape(numbers)
    by_group, order = _sorted(builder, numbers, every)
    _, places = _sorted(builder, order, every)
    is_of = builder.op.Equal(builder.unsqueeze(numbers, [1]), builder.ints(range(groups)))
    lengths = builder.op.ReduceSum(builder.cast(is_of, np.int64), builder.ints([0]), keepdims=0, dims=(groups,))
    return SortedGroups(by_group, order, places, lengths)


def _sorted(builder: GraphBuilder, values: Value, count: Value) -> tuple[Value, Value]:
    """Numbers in ascending order, and their places before."""
    dims = builder.known_dims(values)
    ordered, places = builder.op.several("TopK", values, count, outputs=2, axis=0, largest=0, sorted=1, dims=dims)
    builder.set_dims(places, dims)
    return ordered, places


def split_rows(builder: GraphBuilder, rows: Value, lengths: Value, count: int, axis: int = 0) -> tuple[Value, ...]:
    """The runs of `rows` along an axis; how long they are is left open, since it depends on numbers.

    Args:
      builder: writes the nodes.
      rows: the rows of the first run, then those of the second, and so on.
      lengths: int64[count], the number of rows of each run; they add up to the number of rows.
      count: the number of runs.
      axis: the axis of the rows.
    """
    runs = builder.op.several("Split", rows, lengths, outputs=count, axis=axis)
    dims = builder.dims(rows)
    for run in runs if dims is not None else ():
        run.shape = ir.Shape(
            [d if isinstance(d, int) and place != axis else None for place, d in enumerate(dims or ())]
        )
    return runs


def grouped_product(builder: GraphBuilder, runs: Sequence[Value], matrices: Value, lengths: Value) -> list[Value]:
    """The product of each run of rows with its matrix.

    The matrices of constants are constants themselves, which runtimes arrange for their products once, and which are quantised one
    by one. Other matrices are taken out of their array, where there are many only for runs that have rows.

    Args:
      builder: writes the nodes.
      runs: [rows, k] each; a run may have no rows.
      matrices: [groups, k, n], of the element type of the rows, constants of any; there may be more runs than groups, which
        have no matrix.
      lengths: int64, the number of rows of each run.
    """
    groups, _, columns = builder.known_dims(matrices)
    assert isinstance(groups, int), "the number of groups is known"
    is_constant = constant_tensor(matrices) is not None
    if is_constant or groups < builder.threshold(Threshold.GROUP_BRANCHES) or not builder.supports("Split", np.bool_):
        products = [builder.op.MatMul(run, builder.cast(_matrix(builder, matrices, group), builder.dtype(run)))
                    for group, run in enumerate(runs[:groups])]  # fmt: skip
        for run, product in zip(runs, products, strict=False):
            if run.shape is not None and isinstance(columns, int):
                product.shape = ir.Shape([*run.shape[:-1], columns])
        return products
    has_rows = builder.op.Greater(lengths, builder.ints([0]))
    conditions = builder.op.several("Split", has_rows, outputs=len(runs), axis=0, num_outputs=len(runs), dims=(1,))
    nothing = builder.reshape(builder.constant(np.zeros(0), like=runs[0]), (0, columns))
    return [_product_if(builder, conditions[group], run, (matrices, group), nothing)
            for group, run in enumerate(runs[:groups])]  # fmt: skip


def _matrix(builder: GraphBuilder, matrices: Value, group: int) -> Value:
    """The matrix of a group."""
    dims = [d for d in builder.known_dims(matrices)[1:] if isinstance(d, int)]
    if len(dims) == 2:
        folded = builder.fold(lambda array: array[group], matrices, dims=dims, name=f"{matrices.name}.{group}")
        if folded is not None:
            return folded
    return builder.op.Gather(matrices, builder.constant(group, np.int64), axis=0)


def _product_if(
    builder: GraphBuilder, condition: Value, run: Value, matrix: tuple[Value, int], nothing: Value
) -> Value:
    """The product of a run with the matrix of its group, which is read only if the run has rows."""
    matrices, group = matrix
    number = builder.constant(group, np.int64)
    gather = builder.make_node("Gather", [matrices, number], attributes={"axis": 0})
    product = builder.make_node("MatMul", [run, gather.outputs[0]])
    same = builder.make_node("Identity", [nothing])
    builder.set_dims(gather.outputs[0], builder.known_dims(matrices)[1:])
    builder.set_dims(same.outputs[0], builder.known_dims(nothing))
    then, otherwise = (
        ir.Graph([], [nodes[-1].outputs[0]], nodes=nodes, name=name)
        for nodes, name in (([gather, product], "has_rows"), ([same], "is_empty"))
    )
    return builder.op.If(condition, then_branch=then, else_branch=otherwise)
