"""`Reference`: what JAX computes for several calls of a function, and the comparison of a program with it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_testing.checks import check_at_sizes
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.reference import Reference


def test_calls_of_different_shapes_have_their_own_results():
    calls = [((np.arange(size, dtype=np.float32),), {"factor": np.float32(size)}) for size in (1, 3, 4)]
    found = Reference(lambda x, factor: {"sum": x.sum(), "scaled": x * factor}).of_calls(calls)
    for (args, kwargs), (scaled, total) in zip(calls, found, strict=True):
        np.testing.assert_array_equal(scaled, args[0] * kwargs["factor"])
        assert total == args[0].sum()


def test_one_call_has_its_results_whether_or_not_it_is_compiled():
    reference, x = Reference(lambda x, shift: (x + shift, 2 * x)), np.arange(3, dtype=np.float32)
    for results in (reference((x,), {"shift": 1}), reference.evaluated((x,), {"shift": 1})):
        np.testing.assert_array_equal(results, [x + 1, 2 * x])


def test_each_call_begins_with_the_state_that_there_is():
    class Counter:
        def __init__(self) -> None:
            self.count = jnp.zeros(())

        def __call__(self, x: jax.Array) -> jax.Array:
            if isinstance(x, jax.core.Tracer):
                raise TypeError("This model changes its state and cannot be compiled.")
            self.count += 1
            return x + self.count

    results = Reference(Counter()).of_calls([((jnp.zeros(2),), {})] * 2)
    np.testing.assert_array_equal(results, np.ones((2, 1, 2)))


def test_a_program_is_compared_at_every_size():
    program = to_onnx(lambda x: jnp.where(jnp.asarray(x.shape[0]) < 5, x, 2 * x), [("B", 3)])
    check_at_sizes(program)
    program = to_onnx(lambda x: x, [("B", 3)]).with_model(program.model)
    check_at_sizes(program, [{"B": 1}, {"B": 4}])
    with pytest.raises(CheckFailedError, match="Output 'output' at B = 7 differs from JAX"):
        check_at_sizes(program, [{"B": 4}, {"B": 7}])
