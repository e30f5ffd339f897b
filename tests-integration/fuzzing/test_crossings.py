"""Crossings: each combination of a derivative, a loop, a counter or a draw with what it meets computes what JAX computes."""

from __future__ import annotations

import pytest

from fuzzing.crossings import FORMULAS, crossed
from fuzzing.formulas import findings, single_mutants


def parameter(mutant):
    """A mutant, with a mark where a counter in the carry meets a symbolic size: one form of scans takes that for int64."""
    carried = mutant.choices.get("count", "").startswith(("lax.scan(lambda c, i: (c + 1", "lax.scan(lambda c, r: (c"))
    read = mutant.choices.get("read", "").startswith(("x[n - 1 - i]", "x[(i + 1) % n]", "lax.cond(i > n // 2"))
    marks = [pytest.mark.xfail(reason="a symbolic size of int64 beside a counter of int32")] if carried and read else []
    return pytest.param(mutant, marks=marks, id=str(mutant))


@pytest.mark.sampled(149)
@pytest.mark.parametrize("mutant", [parameter(mutant) for formula in FORMULAS for mutant in crossed(formula)])
def test_crossings(mutant):
    assert findings(mutant) == []


@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.name for formula in FORMULAS])
def test_jax_accepts_each_text_of_a_crossing(formula):
    assert [str(mutant) for mutant in single_mutants(formula) if mutant.program() is None] == []
