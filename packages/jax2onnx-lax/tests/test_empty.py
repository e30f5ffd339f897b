"""Arrays without elements, known when the function is exported or only when the model runs."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.plugins.errors import RuntimeInputError

pytestmark = pytest.mark.sampled(20)

Function = Callable[[jax.Array], jax.Array]

STATIC: dict[str, Function] = {
    "broadcast": lambda x: jnp.broadcast_to(x[:, None], (4, 0)),
    "broadcast in front": lambda x: jnp.broadcast_to(x[None], (0, 4)),
    "broadcast in place": lambda x: jnp.broadcast_to(x[:1], (0,)),
    "sum": lambda x: jnp.broadcast_to(x[:, None], (4, 0)).sum(1),
    "sum of rows": lambda x: jnp.broadcast_to(x[None], (0, 4)).sum(0),
    "prod": lambda x: jnp.broadcast_to(x[:, None], (4, 0)).prod(1),
    "cumsum": lambda x: jnp.cumsum(jnp.broadcast_to(x[:, None], (4, 0)), 1),
    "where": lambda x: jnp.where(jnp.zeros((4, 0), bool), x[:, None], 1),
    "mul": lambda x: x[:, None] * jnp.ones((4, 0), x.dtype),
    "transpose": lambda x: jnp.broadcast_to(x[:, None], (4, 0)).T,
    "reshape": lambda x: jnp.broadcast_to(x[:, None], (4, 0)).reshape(0, 7),
    "concatenate": lambda x: jnp.concatenate([jnp.broadcast_to(x[:, None], (4, 0)), x[:, None]], 1),
    "repeat": lambda x: jnp.repeat(x, 0),
    "repeat rows": lambda x: jnp.repeat(x[:, None], 0, axis=0),
    "take": lambda x: x[jnp.zeros((0,), int)],
    "product": lambda x: x[:0][:, None] @ x[None],
    "sort": lambda x: jnp.sort(jnp.broadcast_to(x[None], (0, 4)), axis=1),
    "complex": lambda x: jnp.abs(lax.complex(x.astype(np.float32), x.astype(np.float32))[:0]),
    "key": lambda x: jax.random.key_data(jax.random.split(jax.random.key(0), 3)[:0]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", STATIC)
def test_a_size_of_0_that_is_known(name: str, dtype: type[np.generic]) -> None:
    fn, x = STATIC[name], np.array([1, 0, 1, 1]).astype(dtype)
    equal(to_onnx(fn, [((4,), dtype)]), fn, x)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_size_of_0_beside_a_symbol(rows: int) -> None:
    def fn(x: jax.Array) -> jax.Array:
        nothing = jnp.broadcast_to(x[:, :, None], (*x.shape, 0)) * 2
        return jnp.concatenate([nothing, x[:, :, None]], 2).sum(2) + nothing.sum(2)

    equal(to_onnx(fn, [("B", 2)]), fn, np.ones((rows, 2), np.float32))


def test_what_has_no_elements_is_not_computed() -> None:
    program = to_onnx(lambda x: jnp.exp(jnp.broadcast_to(x[:, None], (4, 0))).sum(1), [(4,)])
    assert not {node.op_type for node in program.model.graph} & {"Exp", "Expand"}


#: Functions of x [3, N], or of [2, 3, N], which meet an empty array for N = 1.
PRODUCTS: dict[str, Function] = {
    "rows by columns": lambda x: x[:, 1:] @ x[:, 1:].T,
    "batches": lambda x: jnp.einsum("bij,bkj->bik", jnp.stack([x, x])[..., 1:], jnp.stack([x, x])[..., 1:]),
    "batches of columns": lambda x: jnp.einsum("bji,bjk->bik", x.T[None, 1:], x.T[None, 1:]),
    "no batches": lambda x: jnp.einsum("bi,bj->bij", x.T[1:], x.T[1:]),
    "vectors": lambda x: x[0, 1:] @ x[1, 1:],
    "vector by matrix": lambda x: x[:, 0] @ x[:, 1:],
    "matrix by vector": lambda x: x.T[1:] @ x[:, 0],
    "batches by vector": lambda x: jnp.stack([x.T, x.T])[:, 1:] @ x[:, 0],
    "two axes": lambda x: jnp.einsum("ij,ij->", x[:, 1:], x[:, 1:]),
    "sum": lambda x: x[:, 1:].sum(1),
    "sum of nothing else": lambda x: x.T[1:].sum(1),
    "sum of all": lambda x: x[:, 1:].sum(),
}
TYPES = [np.float32, np.int32, np.uint8, np.int8, np.uint32, np.bool_, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_contractions_of_nothing_are_zero(name: str, dtype: type[np.generic]) -> None:
    fn = PRODUCTS[name]
    program = to_onnx(fn, [((3, "N"), dtype)])
    for columns in (5, 1, 2, 1):
        equal(program, fn, np.ones((3, columns)).astype(dtype))


@pytest.mark.parametrize("preferred", [np.int32, np.float32])
def test_contractions_of_nothing_in_a_wider_type(preferred: type[np.generic]) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.matmul(x[:, 1:], x[:, 1:].T, preferred_element_type=preferred)

    program = to_onnx(fn, [((3, "N"), np.int8)])
    for columns in (5, 1):
        equal(program, fn, np.ones((3, columns), np.int8))


def test_a_product_that_never_is_empty_has_no_test_for_it() -> None:
    program = to_onnx(lambda x: x @ x.T, [((3, "N"), np.uint8)])
    assert "Where" not in {node.op_type for node in program.model.graph}


def test_sizes_that_may_be_0_are_no_copies() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x[:, 1:].reshape(x.shape[1] - 1, 3)

    program = to_onnx(fn, [(3, "N")])
    for columns in (1, 4):
        equal(program, fn, np.ones((3, columns), np.float32))


def equal(program: OnnxProgram, fn: Function, x: np.ndarray) -> None:
    """The values and the type are those of JAX."""
    want, got = np.asarray(jax.jit(fn)(x)), np.asarray(program(x))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got, want)


_ROWS = np.array([[0, 2, -1, 7]])
MAY_BE_EMPTY: dict[str, Function] = {
    "roll": lambda x: jnp.roll(x, 1),
    "roll along axes": lambda x: jnp.roll(x, (-2, 5), (0, 1)),
    "take along axis": lambda x: jnp.take_along_axis(x, _ROWS, 1),
    "take along axis, clipped": lambda x: jnp.take_along_axis(x, _ROWS, 1, mode="clip"),
    "take along axis, filled": lambda x: jnp.take_along_axis(x, _ROWS[:, ::-1], 1, mode="fill", fill_value=7),
    "take along axis by computed indices": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
    "repeat to a length": lambda x: jnp.repeat(x, np.array([2, 0]), 0, total_repeat_length=x.shape[1]),
    "repeat by computed counts": lambda x: jnp.repeat(x, x[0].astype(int), 1, total_repeat_length=2 * x.shape[1]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("name", MAY_BE_EMPTY)
def test_a_size_that_may_be_0(name: str, dtype: type[np.generic]) -> None:
    fn = MAY_BE_EMPTY[name]
    program = to_onnx(fn, [((2, "N"), dtype)], constraints=["N >= 0"])
    for columns in (0, 1, 2, 5):
        x = (np.arange(2 * columns).reshape(2, columns) % 3).astype(dtype)
        equal(program, fn, x)
        equal(program.specialize(N=columns), fn, x)


# -- images without elements -------------------------------------------------------------------------

_KERNEL = np.ones((4, 3, 3, 3), np.float32)
IMAGES: dict[str, Function] = {
    "conv": lambda x: lax.conv_general_dilated(x, _KERNEL, (1, 1), "SAME"),
    "conv of padding": lambda x: lax.conv_general_dilated(x, _KERNEL, (1, 1), ((2, 2), (1, 1))),
    "transposed conv": lambda x: lax.conv_transpose(
        x, _KERNEL, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
    ),
    "max": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    "max of padding": lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), ((0, 0), (0, 0), (1, 1), (0, 0))
    ),
    "sum": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "SAME"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_that_are_known_to_be_empty(name):
    x = np.ones((2, 3, 0, 8), np.float32)
    np.testing.assert_array_equal(to_onnx(IMAGES[name], [x])(x), IMAGES[name](jnp.asarray(x)))


@pytest.mark.parametrize("name", ["conv", "transposed conv", "max", "max of padding", "sum"])
def test_images_that_are_empty_at_run_time_are_refused_by_their_operator(name):
    program = to_onnx(IMAGES[name], [("B", 3, "H - 1", 8)])
    with pytest.raises(RuntimeInputError, match=r"an image has an axis without elements, which \w+ of ONNX Runtime"):
        program(np.ones((2, 3, 0, 8), np.float32))
    x = np.ones((2, 3, 2, 8), np.float32)
    np.testing.assert_allclose(program(x), IMAGES[name](jnp.asarray(x)), rtol=1e-6)


READERS: dict[str, Function] = {
    "first": lambda x: x[0],
    "smallest": lambda x: jnp.sort(x)[0],
    "median": jnp.median,
    "clipped": lambda x: jnp.take(x, 2, mode="clip"),
    "between": lambda x: jnp.interp(0.5, x, x),
}


@pytest.mark.parametrize("name", READERS)
def test_what_reads_an_element_refuses_to_read_none(name: str) -> None:
    program = to_onnx(READERS[name], [("T",)], constraints=["T >= 0"])
    with pytest.raises(RuntimeInputError, match=r"At these sizes an axis has no elements, of which \w+ is to read one"):
        program(np.ones(0, np.float32))
    equal(program, READERS[name], np.ones(3, np.float32))


SELECTIONS: dict[str, Function] = {
    "of two": lambda x: jnp.where(x > 1, x, x + 1),
    "of a number": lambda x: jnp.where(x > 1, x, 0),
    "of a number, first": lambda x: jnp.where(x <= 1, 0.5, x),
    "gradient": jax.grad(lambda x: (jax.nn.leaky_relu(x) ** 2).sum()),
}


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (0, 0), (2, 3)])
@pytest.mark.parametrize("assume", [[], ["finite"]])
@pytest.mark.parametrize("name", SELECTIONS)
def test_large_selections_of_no_elements(name: str, assume: list[str], sizes: tuple[int, int]) -> None:
    program = to_onnx(SELECTIONS[name], [("B", "T", 512)], constraints=["B >= 0", "T >= 0"], assume=assume)
    assert "Where" not in {node.op_type for node in program.model.graph}
    x = np.random.default_rng(0).standard_normal((*sizes, 512), np.float32)
    equal(program, SELECTIONS[name], x)
