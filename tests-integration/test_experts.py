"""Mixtures of experts equal JAX, and compute the chosen experts alone where that is proven."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from expert_models import DENSE, EXPERTS, SELECTED, WEIGHTED, WIDTH
from jax2onnx_core import OnnxProgram, to_onnx

SPARSE = {**WEIGHTED, **SELECTED}
FORMED = "A mixture of the chosen experts alone"


def tokens(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, WIDTH)).astype(np.float32)


def assert_equal(program: OnnxProgram, function, x: np.ndarray, tolerance: float = 2e-5) -> None:
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        program(x),
        function(jnp.asarray(x)),
    )


def runs_of_tokens(program: OnnxProgram) -> int:
    """How many operands are split into the tokens of each expert."""
    return sum(node.op_type == "Split" and len(node.outputs) == EXPERTS for node in program.model.graph)


@pytest.mark.parametrize("name", SPARSE)
def test_chosen_experts_alone_equal_jax(name):
    program = to_onnx(SPARSE[name], [("T", WIDTH)], assume=["finite"])
    assert runs_of_tokens(program) > 0, program.report()
    for count in (1, 2, 13, 64):
        assert_equal(program, SPARSE[name], tokens(count))


@pytest.mark.parametrize("name", SELECTED)
def test_experts_that_are_selected_need_no_promise(name):
    program = to_onnx(SELECTED[name], [("T", WIDTH)])
    assert runs_of_tokens(program) > 0, program.report()
    for special in (np.nan, np.inf, -np.inf, 3e38):
        x = tokens(13)
        x[3], x[5, 7] = special, special
        assert_equal(program, SELECTED[name], x)


@pytest.mark.parametrize("name", WEIGHTED)
def test_without_the_promise_all_experts_are_computed(name):
    program = to_onnx(WEIGHTED[name], [("T", WIDTH)])
    assert runs_of_tokens(program) == 0
    assert "assume=['finite']" in str(program.report())
    x = tokens(13)
    x[3], x[5, 7] = np.nan, np.inf
    assert_equal(program, WEIGHTED[name], x)


@pytest.mark.parametrize("name", DENSE)
def test_look_alikes_compute_all_experts(name):
    program = to_onnx(DENSE[name], [("T", WIDTH)], assume=["finite"])
    assert runs_of_tokens(program) == 0
    assert_equal(program, DENSE[name], tokens(13))
