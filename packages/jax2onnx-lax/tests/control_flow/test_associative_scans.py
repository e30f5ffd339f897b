from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import OnnxProgram, to_onnx

LENGTHS = (1, 2, 17, 64, 65, 4096)

Pair: TypeAlias = tuple[jax.Array, jax.Array]


def affine(left: Pair, right: Pair) -> Pair:
    return left[0] * right[0], right[0] * left[1] + right[1]


def numbers(length: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(length).uniform(-1, 1, (length, 3)).astype(np.float32))


@functools.cache
def exported(fn: Callable[[jax.Array], jax.Array]) -> OnnxProgram:
    return to_onnx(fn, [("T", 3)])


def recurrence(x: jax.Array) -> jax.Array:
    return lax.associative_scan(affine, (jnp.cos(x), x))[1]


def reversed_recurrence(x: jax.Array) -> jax.Array:
    return lax.associative_scan(affine, (jnp.cos(x), x), reverse=True)[1]


def last_axis(x: jax.Array) -> jax.Array:
    return lax.associative_scan(affine, {"a": (jnp.cos(x.T), x.T)}["a"], axis=-1)[1]


def batched(x: jax.Array) -> jax.Array:
    return jax.vmap(recurrence)(jnp.stack([x, 2 * x]))


def matrices(x: jax.Array) -> jax.Array:
    return lax.associative_scan(jnp.matmul, jnp.cos(x[:, :, None] * x[:, None]) / 3)


def complex_recurrence(x: jax.Array) -> jax.Array:
    """As in S5 and LRU: a diagonal of complex numbers."""
    decay = jnp.broadcast_to(0.9 * jnp.exp(1j * jnp.arange(3.0)), x.shape)
    return lax.associative_scan(affine, (decay, x.astype(jnp.complex64)))[1].real


FUNCTIONS = [recurrence, reversed_recurrence, last_axis, batched, matrices, complex_recurrence]


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("length", LENGTHS)
def test_any_length_gives_the_prefixes_of_jax(fn: Callable[[jax.Array], jax.Array], length: int) -> None:
    x = numbers(length)
    np.testing.assert_allclose(exported(fn)(x), jax.jit(fn)(x), rtol=1e-4, atol=1e-5)


def last(x: jax.Array) -> jax.Array:
    return lax.associative_scan(lambda left, right: jnp.where(right == 0, left, right), x)


@pytest.mark.parametrize("length", LENGTHS)
def test_order_is_kept(length: int) -> None:
    """The last number that is not zero, which is associative, but not commutative."""
    x = jnp.where(jnp.abs(numbers(length)) < 0.8, 0, jnp.arange(length)[:, None] + 1.0)
    np.testing.assert_array_equal(exported(last)(x), jax.jit(last)(x))


@pytest.mark.parametrize("length", [1, 40, 300])
def test_special_values_stay_in_the_prefixes_that_contain_them(length: int) -> None:
    x = numbers(length).at[length // 2, 0].set(jnp.nan).at[-1, 1].set(jnp.inf).at[0, 2].set(-0.0)
    np.testing.assert_allclose(exported(last)(x), jax.jit(last)(x))


CUMULATIVE = {
    "add": jnp.add, "multiply": jnp.multiply, "maximum": jnp.maximum, "minimum": jnp.minimum,
    "lax.add": lax.add, "lax.mul": lax.mul, "lax.max": lax.max, "lax.min": lax.min,
}  # fmt: skip


@pytest.mark.parametrize("name", CUMULATIVE)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sums_products_and_extrema(name: str, dtype: type) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return lax.associative_scan(CUMULATIVE[name], x, reverse=True)

    program = to_onnx(fn, [(("T", 3), dtype)])
    for length in (1, 5, 200):
        x = (numbers(length) * 3).astype(dtype)
        np.testing.assert_allclose(program(x), jax.jit(fn)(x), rtol=1e-4, atol=1e-4)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, left: jax.Array, right: jax.Array) -> jax.Array:
        return left + right


def test_an_operation_may_be_an_object_without_a_hash() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return lax.associative_scan(Unhashable(), x)

    np.testing.assert_allclose(to_onnx(fn, [("T", 3)])(numbers(9)), jax.jit(fn)(numbers(9)), rtol=1e-5)


def test_sums_of_booleans() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return lax.associative_scan(jnp.add, x)

    x = numbers(200) > 0.9
    np.testing.assert_array_equal(to_onnx(fn, [(("T", 3), np.bool_)])(x), jax.jit(fn)(x))


def test_few_elements_are_not_computed_in_blocks() -> None:
    program = to_onnx(recurrence, [("T", 3)], constraints=["T <= 60"])
    assert [node.op_type for node in program.model.graph if node.attributes.get("body")] == ["Loop"]
    np.testing.assert_allclose(program(numbers(60)), jax.jit(recurrence)(numbers(60)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 6, 7, 12, 100])
def test_a_known_length_gives_the_prefixes_of_jax(fn: Callable[[jax.Array], jax.Array], length: int) -> None:
    x = numbers(length)
    np.testing.assert_allclose(to_onnx(fn, [(length, 3)])(x), jax.jit(fn)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [100, 700, 50_000])
def test_operators_grow_with_the_logarithm_of_a_known_length(length: int) -> None:
    program = to_onnx(recurrence, [(length, 3)])
    assert len(program.model.graph) < 18 * np.log2(length)
    np.testing.assert_allclose(program(numbers(length)), jax.jit(recurrence)(numbers(length)), rtol=1e-4, atol=1e-5)


def test_halves_of_prefixes_are_interleaved_without_a_sum() -> None:
    """As JAX writes it, each is padded with zeros, and both are added."""
    program = to_onnx(last, [(48, 3)])
    assert not {"Pad", "Add"} & {node.op_type for node in program.model.graph}


def test_the_derivative_along_many_elements_is_that_of_jax() -> None:
    derivative = jax.grad(lambda x: recurrence(x).sum())
    np.testing.assert_allclose(
        to_onnx(derivative, [(300, 3)])(numbers(300)), jax.jit(derivative)(numbers(300)), rtol=1e-3, atol=1e-4
    )


def test_lengths_that_differ_are_the_error_of_jax() -> None:
    with pytest.raises(Exception, match=r"same first dimension|non-constant"):
        to_onnx(lambda x, y: lax.associative_scan(affine, (x, y))[1], [("T", 3), ("S", 3)])


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_length_that_may_be_zero(length: int) -> None:
    program = to_onnx(recurrence, [("T", 3)], constraints=["T >= 0"])
    x = numbers(length)
    for found, wanted in zip(jax.tree.leaves(program(x)), jax.tree.leaves(recurrence(x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_the_gradient_of_a_long_cumulative_operation_is_that_of_jax(name):
    def function(x):
        return jax.grad(lambda x: (vars(jax.lax)[name](x) * jnp.arange(x.shape[0])).sum())(x)

    to_onnx(function, [(300,)]).verify()


@pytest.mark.parametrize(("operation", "name"), [(lax.mul, "cumprod"), (lax.max, "cummax"), (lax.min, "cummin")])
def test_an_operation_of_jax_is_its_cumulative_operation(operation, name):
    program = to_onnx(lambda x: lax.associative_scan(operation, x), [("T", 3)])
    assert name in program.report()


_DIFFERENTIABLE: dict[str, Callable[[jax.Array], jax.Array]] = {
    **{name: vars(lax)[name] for name in ("cumprod", "cummax", "cummin", "cumlogsumexp")},
    "lax.mul": lambda x: lax.associative_scan(lax.mul, x),
    "lax.max": lambda x: lax.associative_scan(lax.max, x, reverse=True),
    "recurrence": reversed_recurrence,
    "closure": lambda x: lax.associative_scan(lambda a, b: a * b + 0 * x[0], x),
    "last axis": lambda x: last_axis(x).T,
}


def _gradient(name: str) -> Callable[[jax.Array], jax.Array]:
    def function(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (_DIFFERENTIABLE[name](x) * jnp.arange(x.shape[0])[:, None]).sum())(x)

    return function


@pytest.mark.parametrize("name", _DIFFERENTIABLE)
def test_the_gradient_along_a_symbolic_length_is_that_of_jax(name):
    program = to_onnx(_gradient(name), [("T", 3)])
    for length in (1, 7, 150):
        x = 1 + numbers(length) / 9
        np.testing.assert_allclose(program(x), jax.jit(_gradient(name))(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in _DIFFERENTIABLE if name != "recurrence"])
def test_the_gradient_of_zeros_and_special_values_is_that_of_jax(name):
    x = numbers(7).at[3, 0].set(0).at[-1, 0].set(0).at[2, 1].set(jnp.nan).at[-1, 2].set(jnp.inf)
    found = to_onnx(_gradient(name), [("T", 3)])(x)
    np.testing.assert_allclose(found, jax.jit(_gradient(name))(x), rtol=1e-4, atol=1e-4)
