"""`dot_general` and `ragged_dot` against JAX over random valid parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexing_strategies import assert_equals_jax
from jax import lax
from jax2onnx_core import to_onnx

DTYPES = [np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, np.bool_]


def _whole(shape, dtype, seed):
    return np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)


@st.composite
def contractions(draw):
    """Shapes of two operands and dimension numbers, in any order of axes."""
    sizes = st.integers(1, 4)
    batch, contracted = draw(st.lists(sizes, max_size=2)), draw(st.lists(st.integers(0, 4), max_size=2))
    shapes, numbers = [], []
    for _ in range(2):
        free = draw(st.lists(sizes, max_size=2))
        dims = [*batch, *contracted, *free]
        order = draw(st.permutations(range(len(dims))))
        places = [order.index(i) for i in range(len(dims))]
        shapes.append(tuple(dims[i] for i in order))
        numbers.append((tuple(places[: len(batch)]), tuple(places[len(batch) : len(batch) + len(contracted)])))
    (lhs_batch, lhs_contracted), (rhs_batch, rhs_contracted) = numbers
    return shapes, ((lhs_contracted, rhs_contracted), (lhs_batch, rhs_batch))


@given(contractions(), st.sampled_from(DTYPES), st.booleans())
def test_dot_general_equals_jax_for_any_dimension_numbers(contraction, dtype, constant):
    shapes, numbers = contraction
    lhs, rhs = (_whole(shape, dtype, seed) for seed, shape in enumerate(shapes))

    def fn(x, y=rhs):
        return lax.dot_general(x, y, numbers)

    with jax.enable_x64(True):
        assert_equals_jax(fn, lhs) if constant else assert_equals_jax(fn, lhs, rhs)


@given(st.sampled_from(DTYPES[:-1]), st.sampled_from(DTYPES[:-1]))
def test_preferred_element_type_accumulates_in_it(dtype, preferred):
    with jax.enable_x64(True):
        if np.issubdtype(dtype, np.floating) and not np.issubdtype(preferred, np.floating):
            return
        if np.dtype(preferred).itemsize < np.dtype(dtype).itemsize:
            return
        top = 100 if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max
        x = np.full((2, 3), min(top, 2**20)).astype(dtype)
        assert_equals_jax(lambda x, y: lax.dot(x, y, preferred_element_type=preferred), x, x.T.copy())


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64, np.int16])
def test_integer_products_wrap_around(dtype):
    with jax.enable_x64(True):
        x = np.full((2, 3), np.iinfo(dtype).max, dtype)
        assert_equals_jax(lambda x, y: x @ y, x, x.T.copy())


@pytest.mark.parametrize(
    "spec", ["ab,bc->ac", "bqhd,bkhd->bhqk", "abc,dc->abd", "a,b->ab", "ab,ab->a", "abk,kcd->abcd"]
)
def test_symbolic_dimensions_stay_symbolic(spec):
    names = dict(zip("abcdhkq", "ABCDHKQ", strict=True))
    operands, _ = spec.split("->")
    shapes = [tuple(names[c] for c in part) for part in operands.split(",")]
    program = to_onnx(lambda x, y: jnp.einsum(spec, x, y), shapes)
    for first in (1, 2, 5):
        sizes = {c: first + i for i, c in enumerate("abcdhkq")}
        x, y = (_whole([sizes[c] for c in part], np.float32, i) for i, part in enumerate(operands.split(",")))
        np.testing.assert_array_equal(program(x, y), np.einsum(spec, x, y))


@pytest.mark.parametrize(
    "subscripts", ["ij,j->i", "j,ij->i", "ij,i->j", "bij,j->bi", "bij,i->bj", "bij,b->ij", "j,bij->bi"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_vector_is_not_the_right_operand_of_a_product(subscripts, dtype):
    # ONNX Runtime multiplies each row by it alone: 1,024 rows of 512 elements took 0.85 ms in place of 0.05.
    sizes = {"b": 2, "i": 3, "j": 4}
    labels = subscripts.split("->")[0].split(",")
    operands = [_whole([sizes[x] for x in own], dtype, seed) for seed, own in enumerate(labels)]
    with jax.enable_x64(True):
        program = assert_equals_jax(lambda x, y: jnp.einsum(subscripts, x, y), *operands)
    products = [node for node in program.model.graph if node.op_type in ("MatMul", "Gemm")]
    assert [len(node.inputs[1].shape) > 1 for node in products] == [True]


def test_weight_used_in_both_directions_is_stored_once():
    table = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    program = to_onnx(lambda x: jnp.einsum("btd,vd->btv", x, table) @ table, [("B", 3, 8)])
    large = [v for v in program.model.graph.initializers.values() if v.const_value.size == table.size]
    assert len(large) == 1


@pytest.mark.parametrize("sizes", [[3, 0, 4], [0, 0, 0], [10, 0, 0], [2, 3, 5], [9, 9, 9]])
def test_ragged_dot_equals_jax_for_any_group_sizes(sizes):
    x, w = _whole((10, 4), np.float32, 0), _whole((3, 4, 5), np.float32, 1)
    assert_equals_jax(lax.ragged_dot, x, w, np.array(sizes, np.int32))


def test_ragged_dot_with_symbolic_rows():
    w, sizes = _whole((3, 4, 5), np.float32, 1), np.array([1, 2, 1], np.int32)
    program = to_onnx(lambda x, s: lax.ragged_dot(x, w, s), [("N", 4), sizes])
    for rows in (1, 4, 9):
        x = _whole((rows, 4), np.float32, rows)
        np.testing.assert_array_equal(program(x, sizes), lax.ragged_dot(x, w, sizes))


def test_gradient_of_ragged_dot_equals_jax():
    x, w, sizes = _whole((10, 4), np.float32, 0), _whole((3, 4, 5), np.float32, 1), np.array([4, 0, 5], np.int32)
    assert_equals_jax(jax.grad(lambda x, w, s: (lax.ragged_dot(x, w, s) ** 2).sum(), (0, 1)), x, w, sizes)


_SIZES = [[4, 0, 5, 1], [0, 0, 0, 0], [10, 0, 0, 0], [2, 3, 1, 1]]


@pytest.mark.parametrize("sizes", _SIZES)
@pytest.mark.parametrize("numbers", [
    lax.RaggedDotDimensionNumbers((((0,), (1,)), ((), ())), [1], [2]),
    lax.RaggedDotDimensionNumbers((((1,), (2,)), ((), ())), [0], [0]),
    lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [0], [1]),
])  # fmt: skip
@pytest.mark.parametrize("is_constant", [True, False])
def test_ragged_dot_of_axes_in_any_order(sizes, numbers, is_constant):
    ((left,), (right,)), (group,) = numbers.dot_dimension_numbers[0], numbers.rhs_group_dimensions
    x = _whole((10, 4) if left == 1 else (4, 10), np.float32, 0)
    w = np.moveaxis(_whole((4, 4, 5), np.float32, 1), (0, 1, 2), (group, right, 3 - group - right))
    sizes = np.array(sizes, np.int32)
    if is_constant:
        assert_equals_jax(lambda x, s: lax.ragged_dot_general(x, w, s, numbers), x, sizes)
    else:
        assert_equals_jax(lambda x, w, s: lax.ragged_dot_general(x, w, s, numbers), x, w, sizes)


@pytest.mark.parametrize("sizes", _SIZES)
@pytest.mark.parametrize("axes", [(0, 0), (1, 0), (0, 1)])
def test_ragged_contraction_equals_jax(sizes, axes):
    numbers = lax.RaggedDotDimensionNumbers((((axes[0],), (axes[1],)), ((), ())), [axes[0]], [])
    x, y = _whole((10, 4), np.float32, 0), _whole((10, 5), np.float32, 1)
    x, y = (a if axis == 0 else a.T for a, axis in zip((x, y), axes, strict=True))
    assert_equals_jax(lambda x, y, s: lax.ragged_dot_general(x, y, s, numbers), x, y, np.array(sizes, np.int32))


def test_ragged_contraction_is_one_product_for_each_run():
    numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    program = to_onnx(
        lambda x, y, s: lax.ragged_dot_general(x, y, s, numbers), [("N", 4), ("N", 5), np.zeros(3, np.int32)]
    )
    assert sum(node.op_type == "MatMul" for node in program.model.graph) == 3


@pytest.mark.parametrize("groups", [3, 20])
def test_ragged_dot_of_another_result_type(groups):
    x, w = _whole((7, 4), ml_dtypes.bfloat16, 0), _whole((groups, 4, 5), ml_dtypes.bfloat16, 1)
    sizes = np.bincount([1, 1, 0, 2, 2, 2], minlength=groups).astype(np.int32)
    assert_equals_jax(lambda x, w, s: lax.ragged_dot(x, w, s, preferred_element_type=np.float32), x, w, sizes)


def test_matrices_of_many_groups_that_are_inputs_are_read_for_runs_with_rows_alone():
    x, w, sizes = _whole((7, 4), np.float32, 0), _whole((20, 4, 5), np.float32, 1), np.eye(20, dtype=np.int32)[3] * 5
    program = to_onnx(lax.ragged_dot, [x, w, sizes])
    assert sum(node.op_type == "If" for node in program.model.graph) == 20
    np.testing.assert_array_equal(program(x, w, sizes), lax.ragged_dot(x, w, sizes))
