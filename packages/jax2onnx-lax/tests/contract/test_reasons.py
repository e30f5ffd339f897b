"""Rules of products and convolutions decline for the reasons that they name."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest
from jax import lax
from reasons import Declining, reasons_of

_RUNS = np.array([4, 0, 5], np.int32)
_ONNX = {"target": "onnx"}


def _conv(strides=(1,), padding="VALID", **params: object) -> Callable[..., jax.Array]:
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **params)


def _ragged(contracted, batch, ragged, group=()):
    numbers = lax.RaggedDotDimensionNumbers((contracted, batch), ragged, list(group))
    return lambda x, y, sizes: lax.ragged_dot_general(x, y, sizes, numbers)


_OF_COLUMNS = _ragged(([1], [1]), ([], []), [0], [0])
_LARGE_WINDOWS = [(2, 4, 40), (6, 4, 38)]

CASES = [
    Declining("it is no depthwise convolution along one axis", _conv(), [(2, 4, 9), (6, 4, 3)]),
    Declining("it is no depthwise convolution along one axis", _conv(feature_group_count=2), [(2, 4, 9), (4, 2, 3)]),
    Declining("it is no depthwise convolution along one axis", _conv(batch_group_count=2), [(2, 4, 9), (4, 4, 3)]),
    Declining("one axis is as fast", _conv(feature_group_count=4), [(2, 4, 9), (4, 1, 3)], _ONNX),
    Declining("only Conv of float32 was measured", _conv(feature_group_count=4), [((2, 4, 9), "float16"), ((4, 1, 3), "float16")]),
    Declining("only Conv of float32 was measured", _conv(padding=[(0, 0)], feature_group_count=4, lhs_dilation=(2,)), [(2, 4, 9), (4, 1, 3)]),
    Declining("only Conv of float32 was measured", _conv(), [(shape, "float16") for shape in _LARGE_WINDOWS]),
    Declining("only convolutions without groups, strides and dilated operands were measured", _conv(padding=[(0, 0)], lhs_dilation=(2,)), [(2, 4, 20), (6, 4, 37)]),
    Declining("only convolutions without groups, strides and dilated operands were measured", _conv(feature_group_count=2), [(2, 8, 40), (6, 4, 38)]),
    Declining("only convolutions without groups, strides and dilated operands were measured", _conv(strides=(2,)), [(2, 4, 40), (6, 4, 34)]),
    Declining("Conv is as fast", _conv(), _LARGE_WINDOWS, _ONNX),
    Declining("its windows are not large, or it has many outputs", _conv(), [(2, 4, 8), (6, 4, 7)]),
    Declining("its windows are not large, or it has many outputs", _conv(), [(2, 4, 38), (6, 4, 38)]),
    Declining("batched, or several contracted axes", _ragged(([2], [2]), ([0], [1]), [1], [0]), [(2, 9, 4), (2, 2, 4, 5), np.array([[4, 5]] * 2, np.int32)]),
    Declining("too many groups for one MatMul each", _OF_COLUMNS, [(9, 4), (513, 4, 5), ((513,), "int32")]),
    Declining("integer element types", _OF_COLUMNS, [((9, 4), "int32"), ((3, 4, 5), "int32"), _RUNS]),
    Declining("nothing to multiply", _OF_COLUMNS, [(9, 0), (3, 0, 5), _RUNS]),
    Declining("not two matrices", _ragged(([0], [0]), ([], []), [0]), [(9, 4, 2), (9, 5), _RUNS]),
    Declining("more than one axis of rows or columns", _ragged(([2], [1]), ([], []), [0], [0]), [(9, 2, 4), (3, 4, 5), _RUNS]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_of_a_product_declines(case: Declining):
    assert case.reason in reasons_of(case)


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 4, 40), (6, 4, 38)],
        [(2, 4, 9), (6, 4, 8)],
        [(2, 4, 244), (6, 4, 196)],
    ],
)
def test_convolutions_at_the_limits_of_large_windows_are_taken_apart(shapes):
    reason = "its windows are not large, or it has many outputs"
    assert reason not in reasons_of(Declining(reason, _conv(), shapes))


def test_as_many_groups_as_are_split_are_multiplied():
    case = Declining("too many groups for one MatMul each", _OF_COLUMNS, [(9, 4), (512, 4, 5), ((512,), "int32")])
    assert case.reason not in reasons_of(case)
