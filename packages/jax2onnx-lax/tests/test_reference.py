"""Models for the standard alone, run by `onnx.reference`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.jax_types import Function


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
