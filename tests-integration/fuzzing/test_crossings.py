"""Crossings: each combination of a derivative, a loop, a counter or a draw with what it meets computes what JAX computes."""

from __future__ import annotations

import pytest

from fuzzing.crossings import FORMULAS, crossed
from fuzzing.formulas import findings, single_mutants


@pytest.mark.sampled(18)
@pytest.mark.parametrize("mutant", [mutant for formula in FORMULAS for mutant in crossed(formula)], ids=str)
def test_crossings(mutant):
    assert findings(mutant) == []


@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.name for formula in FORMULAS])
def test_jax_accepts_each_text_of_a_crossing(formula):
    assert [str(mutant) for mutant in single_mutants(formula) if mutant.program() is None] == []
