"""Two hundred random programs, the same ones every time; `nox -s fuzz` checks others."""

from __future__ import annotations

import pytest

from fuzzing.run import check_seed

PROGRAMS, BATCH = 200, 10


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_programs_compute_what_jax_computes(first):
    outcomes = [check_seed(seed) for seed in range(first, first + BATCH)]
    defects = [defect for outcome in outcomes for defect in outcome.defects]
    assert not defects, "\n".join(defects)
