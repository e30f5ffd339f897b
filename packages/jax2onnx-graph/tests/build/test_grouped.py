"""Runs of rows, each times a matrix of its own: sorted, split and multiplied by ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.build.grouped import grouped_product, sorted_groups, split_rows
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.targets import Target
from plain_builder import PlainBuilder

ROWS = np.arange(15, dtype=np.float32).reshape(5, 3)
MATRICES = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
NUMBERS = np.array([2, 0, 2, 3, 0])


class _OfThreshold(Target):
    """A target on which matrices are taken by conditions from so many groups on."""

    def __init__(self, groups: int) -> None:
        self._groups = groups

    def threshold(self, threshold: Threshold) -> int:
        return self._groups if threshold is Threshold.GROUP_BRANCHES else super().threshold(threshold)


def test_rows_are_sorted_by_group():
    builder = PlainBuilder(NUMBERS)
    groups = sorted_groups(builder, builder.graph.inputs[0], 4)
    order = np.argsort(NUMBERS, stable=True)
    expected = {"numbers": NUMBERS[order], "order": order, "places": np.argsort(order), "lengths": [2, 0, 2, 1]}
    for name, array in expected.items():
        np.testing.assert_array_equal(builder.run(vars(groups)[name]), array)
    assert [builder.dims(vars(groups)[name]) for name in expected] == [(5,), (5,), (5,), (4,)]


def test_runs_have_open_lengths():
    builder = PlainBuilder(ROWS.T.copy(), np.array([2, 0, 3]))
    rows, lengths = builder.graph.inputs
    runs = split_rows(builder, rows, lengths, 3, axis=1)
    assert [[dim if isinstance(dim, int) else dim.value for dim in run.shape] for run in runs] == [[3, None]] * 3
    np.testing.assert_array_equal(builder.run(runs[2]), ROWS.T[:, 2:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("is_constant", "threshold", "operators"),
    [
        (True, 2, ["Split", *["MatMul"] * 4]),
        (False, 5, ["Split", *["Gather", "MatMul"] * 4]),
        (False, 4, ["Split", "Greater", "Split", *["If"] * 4]),
    ],
)
def test_each_run_times_its_matrix(is_constant, threshold, operators, dtype):
    lengths = np.array([2, 0, 2, 1, 0])
    builder = PlainBuilder(ROWS, lengths, *([] if is_constant else [MATRICES]))
    builder.target = _OfThreshold(threshold)
    rows, counts, *given = builder.graph.inputs
    matrices = given[0] if given else builder.constant(MATRICES.astype(dtype))
    products = grouped_product(builder, split_rows(builder, rows, counts, 5), matrices, counts)
    kept = [name for name in builder.operators if name != "Cast"]
    assert kept == operators
    assert [value.dtype for value in products] == [ir.DataType.FLOAT] * 4
    for product, rows_of, matrix in zip(products, np.split(ROWS, [2, 2, 4, 5]), MATRICES, strict=False):
        np.testing.assert_array_equal(builder.run(product), rows_of @ matrix)


def test_a_product_with_a_constant_matrix_has_its_columns():
    builder = PlainBuilder(ROWS, np.array([5]))
    rows, counts = builder.graph.inputs
    [product] = grouped_product(builder, split_rows(builder, rows, counts, 1), builder.constant(MATRICES[:1]), counts)
    assert product.shape is not None
    assert product.shape[1:] == (2,)
    assert product.producer().inputs[1].name.endswith(".0")
