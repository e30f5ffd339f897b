"""Which constants of a model are one, and which are kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_core.lowering._constants import ConstantPool
from jax2onnx_graph import ir
from jax2onnx_graph.build.names import Names

#: 1024 and 16384 bytes, the limits, and one element more.
SMALL, LARGER, MEDIUM, LARGE = (np.arange(size, dtype=np.float32) for size in (256, 257, 4096, 4097))


@pytest.fixture
def pool() -> ConstantPool:
    return ConstantPool(Names(["taken"]))


def _changed(array: np.ndarray, index: int, number: float) -> np.ndarray:
    other = array.copy()
    other.flat[index] = number
    return other


@pytest.mark.parametrize("array", [SMALL, LARGER], ids=["small", "larger"])
@pytest.mark.parametrize(
    ("change", "is_one"),
    [
        (lambda a: a.copy(), True),
        (lambda a: np.asfortranarray(a), True),
        (lambda a: _changed(a, 1, 0.5), False),
        (lambda a: _changed(a, 0, -0.0), False),
        (lambda a: _changed(a, 5, np.nan), False),
        (lambda a: a.view(np.int32), False),
        (lambda a: a.reshape(1, -1), False),
    ],
)
def test_equal_constants_are_one(pool, array, change, is_one):
    first, second = pool.constant(array), pool.constant(change(array))
    assert (first is second) is is_one
    np.testing.assert_array_equal(second.const_value.numpy(), change(array))


def test_numbers_that_are_nan_are_equal_by_their_bytes(pool):
    array = _changed(LARGER, 3, np.nan)
    assert pool.constant(array) is pool.constant(array.copy())


def test_constants_have_the_names_that_they_are_asked_for(pool):
    names = [
        pool.constant(SMALL).name,
        pool.constant(SMALL, "axes").name,
        pool.constant(SMALL, "axes").name,
        pool.constant(SMALL + 1, "taken").name,
    ]
    assert names == ["const", "axes", "axes", "taken_1"]
    assert pool.constant(LARGER, "one") is pool.constant(LARGER, "other")


def test_a_small_constant_is_a_copy(pool):
    array = np.zeros(3, np.float32)
    value = pool.constant(array)
    array[:] = 1
    assert not value.const_value.numpy().any()


@pytest.mark.parametrize(
    ("array", "names", "is_one", "shown"),
    [
        (SMALL, ("a", "b"), False, ["a", "b"]),
        (SMALL, (None, None), True, ["const", "const"]),
        (LARGER, (None, None), True, ["other", "other"]),
        (LARGER, ("a", "b"), False, ["a", "b"]),
        (MEDIUM, ("a", "b"), False, ["a", "b"]),
        (LARGE, ("a", "b"), True, ["a", "a"]),
        (LARGE, (None, "b"), True, ["other", "other"]),
    ],
)  # fmt: skip
def test_equal_weights_are_one_where_they_are_large_or_have_no_name(pool, array, names, is_one, shown):
    values = [pool.weight(array.copy(), name, lambda: "other") for name in names]
    assert (values[0] is values[1]) is is_one
    assert [value.name for value in values] == shown


def test_the_constant_of_which_another_is_a_transposed_view(pool):
    matrix = np.arange(2000, dtype=np.float32).reshape(40, 50)
    value = pool.weight(matrix, "w", lambda: "other")
    view = ir.Value(name="t", const_value=ir.Tensor(matrix.T))
    assert pool.transposed(view) is value
    assert pool.transposed(ir.Value(name="t", const_value=ir.Tensor(matrix.T.copy()))) is None
    assert pool.transposed(ir.Value(name="t")) is None
    assert pool.transposed(value) is None


def test_a_tensor_whose_numbers_are_not_at_hand(pool):
    tensor = ir.LazyTensor(lambda: ir.tensor(np.zeros(2)), dtype=ir.DataType.FLOAT, shape=ir.Shape([2, 3]), name="w")
    one, other = pool.tensor(tensor, "w"), pool.tensor(tensor, "w")
    assert (one.name, other.name, one.dtype, tuple(one.shape)) == ("w", "w_1", ir.DataType.FLOAT, (2, 3))
