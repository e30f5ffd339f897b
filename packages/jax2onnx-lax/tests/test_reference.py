"""Models for the standard alone, run by `onnx.reference`."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.jax_types import Function
from recurrence_spellings import SPELLINGS


def _counted(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(2, 6, lambda i, v: v * i, x)


def _bounded_by_an_input(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, x.shape[0] + 1, lambda i, v: v + i, x)


def _conditional(x: jax.Array) -> jax.Array:
    return jax.lax.while_loop(lambda v: v.sum() < 50, lambda v: 2 * v, x)


@pytest.mark.parametrize("fn", [_counted, _bounded_by_an_input, _conditional, jnp.linalg.eigvalsh])
def test_loops_run_in_the_reference_implementation(fn: Function) -> None:
    x = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]], np.float32)
    program = to_onnx(fn, [(3, 3) if fn is jnp.linalg.eigvalsh else ("N", 3)], target="onnx")
    np.testing.assert_allclose(program(x), fn(x), rtol=1e-5)


def test_a_loop_says_that_it_begins() -> None:
    program = to_onnx(_counted, [(3,)], target="onnx")
    (loop,) = [node for node in program.model.graph if node.op_type == "Loop"]
    assert all(value is not None for value in loop.inputs)


def _affine(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    return left[0] * right[0], right[0] * left[1] + right[1]


def _decayed(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A linear recurrence, in segments where there are many steps."""

    def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jax.nn.sigmoid(row) * h + row
        return h, h

    return jax.lax.scan(step, jnp.zeros(3), x)


def _decayed_backwards(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.lax.scan(lambda h, row: (0.9 * h + row, jnp.outer(h, row)), jnp.zeros(3), x, reverse=True)


def _gradient_of_products(x: jax.Array) -> jax.Array:
    return jax.grad(lambda x: jnp.sin(jax.lax.cumprod(x)).sum())(x)


CUMULATIVE = {
    f"{fn.__name__}{', reversed' * reverse}": functools.partial(fn, reverse=reverse)
    for fn in (jax.lax.cumsum, jax.lax.cumprod, jax.lax.cummax, jax.lax.cummin, jax.lax.cumlogsumexp)
    for reverse in (False, True)
}
#: Functions of rows over time.
OVER_TIME: dict[str, Function] = {
    **CUMULATIVE,
    "recurrence": _decayed,
    "recurrence, backwards": _decayed_backwards,
    "associative scan": lambda x: jax.lax.associative_scan(_affine, (jnp.cos(x), x)),
    "associative scan of products": lambda x: jax.lax.associative_scan(jnp.matmul, x[:, :, None] * x[:, None] / 3),
    "gradient of products": _gradient_of_products,
    "scan of a tail": lambda x: jax.lax.scan(lambda c, row: (jnp.tanh(c + row), jnp.outer(c, row)), x[0], x[1:]),
}
#: None and one, primes, and what is around the sizes of segments and blocks.
LENGTHS = (0, 1, 2, 13, 31, 32, 33, 65, 129)


def _agree(program: OnnxProgram, fn: Function, length: int) -> None:
    x = np.random.default_rng(length).normal(size=(length, 3)).astype(np.float32)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-4), program(x), jax.jit(fn)(x))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", OVER_TIME)
def test_a_fixed_length_of_time_runs_in_the_reference_implementation(name: str, length: int) -> None:
    if not (name == "scan of a tail" and length == 0):
        _agree(to_onnx(OVER_TIME[name], [(length, 3)], target="onnx"), OVER_TIME[name], length)


@pytest.mark.parametrize("name", [name for name in OVER_TIME if not name.startswith("gradient")])
def test_every_length_of_time_runs_in_the_reference_implementation(name: str) -> None:
    program = to_onnx(OVER_TIME[name], [("T", 3)], target="onnx")
    for length in LENGTHS[1:]:
        _agree(program, OVER_TIME[name], length)


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_of_a_recurrence_runs_in_the_reference_implementation(name: str) -> None:
    spelling = SPELLINGS[name]
    program = to_onnx(spelling.function, [("T", *shape) for shape in spelling.shapes], target="onnx")
    for length in (1, 31, 33, 65):
        random = np.random.default_rng(length)
        rows = [random.normal(size=(length, *shape)).astype(np.float32) for shape in spelling.shapes]
        expected = jax.tree.leaves(jax.jit(spelling.function)(*rows))
        for y, result in zip(jax.tree.leaves(program(*rows)), expected, strict=True):
            scale = max(1.0, float(np.abs(result).max()))
            np.testing.assert_allclose(y, result, rtol=1e-4, atol=2e-5 * scale)
