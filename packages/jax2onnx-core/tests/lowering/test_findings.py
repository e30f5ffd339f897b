from __future__ import annotations

import jax
import pytest
from jax2onnx_core.lowering._findings import Findings
from jax2onnx_core.plugins.errors import Declined


def _jaxpr(factor):
    return jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, row: (factor * c + row, c), x[0], x))(jax.numpy.ones(3))


def _number_of_runs(*given):
    findings, runs = Findings(), []
    for each in given:
        findings.once(lambda: runs.append(1), "name", each)
    return len(runs)


def test_an_analysis_of_equal_jaxprs_is_made_once():
    assert _number_of_runs(_jaxpr(2.0), _jaxpr(2.0)) == 1


def test_analyses_of_other_jaxprs_and_parameters_are_made():
    assert _number_of_runs((_jaxpr(2.0), True), (_jaxpr(3.0), True), (_jaxpr(2.0), False), (_jaxpr(2.0), 1)) == 4


def test_equal_jaxprs_of_other_lines_are_analysed_since_nodes_are_named_after_them():
    here = jax.make_jaxpr(lambda x: x + 1)(1.0)
    there = jax.make_jaxpr(lambda x: x + 1)(1.0)
    assert _number_of_runs(here, there) == 2


def test_what_was_declined_is_declined_again_for_the_same_reason():
    findings, runs = Findings(), []

    def decline():
        runs.append(1)
        raise Declined("it has few steps")

    for _ in range(2):
        with pytest.raises(Declined, match="it has few steps"):
            findings.once(decline, "name", 1)
    assert len(runs) == 1
