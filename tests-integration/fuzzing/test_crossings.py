"""Crossings: each combination of a derivative, a loop, a counter or a draw with what it meets computes what JAX computes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx

from fuzzing.crossings import FORMULAS, crossed
from fuzzing.formulas import findings, single_mutants

CROSSED = [mutant for formula in FORMULAS for mutant in crossed(formula)]


@pytest.mark.sampled(149)
@pytest.mark.parametrize("mutant", CROSSED, ids=map(str, CROSSED))
def test_crossings(mutant):
    assert findings(mutant) == []


@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.name for formula in FORMULAS])
def test_jax_accepts_each_text_of_a_crossing(formula):
    assert [str(mutant) for mutant in single_mutants(formula) if mutant.program() is None] == []


@pytest.mark.xfail(
    reason="A counter that falls from a symbolic size is compared with int64 where it is int32.", strict=True
)
def test_a_counter_that_falls_from_a_symbolic_size():
    def reversed_rows(x):
        return lax.scan(lambda i, row: (i - 1, x[x.shape[0] - 1 - i] + row), x.shape[0] - 1, x)[1]

    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(to_onnx(reversed_rows, [("T", 2)])(x), jax.jit(reversed_rows)(jnp.asarray(x)))
