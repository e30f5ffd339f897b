"""Cases refuse what they cannot mean."""

from __future__ import annotations

import math

import pytest
from jax2onnx_core import Case, expect_graph
from jax2onnx_core.plugins.cases import Tolerance


@pytest.mark.parametrize(
    ("tolerance", "f32", "f64"),
    [(None, None, None), (1e-3, 1e-3, 1e-3), (0, 0, 0), ({"f32": 1e-3}, 1e-3, None), ({"f64": 1, "f32": 2}, 2, 1)],
)
def test_a_tolerance_is_that_of_each_precision_it_names(tolerance: Tolerance, f32: float | None, f64: float | None):
    case = Case("exp", math.exp, rtol=tolerance, atol=1e-6)
    assert case.tolerances("f32") == (f32, 1e-6)
    assert case.tolerances("f64") == (f64, 1e-6)


def test_paths_are_one_exact_expectation():
    listed = expect_graph("Log", at_most=3)
    exact = expect_graph("Exp -> Neg", "Abs", match="exact")
    assert Case("a", math.exp).expectations == []
    assert Case("a", math.exp, expect="Exp").expectations == [expect_graph("Exp", match="exact")]
    assert Case("a", math.exp, expect=["Exp -> Neg", "Abs"]).expectations == [exact]
    assert Case("a", math.exp, expect=listed).expectations == [listed]
    assert Case("a", math.exp, expect=["Exp -> Neg", listed, "Abs"]).expectations == [exact, listed]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rtol": -1e-3}, r"Case 'exp': rtol has to be a number from 0 on, not -0\.001\."),
        ({"atol": {"f64": math.nan}}, r"Case 'exp': atol has to be a number from 0 on, not nan\."),
        ({"atol": "1e-3"}, r"Case 'exp': atol has to be a number from 0 on, not '1e-3'\."),
        ({"rtol": {"f16": 1}}, r"Case 'exp': rtol names f16, but the precisions are f32, f64\."),
        ({"skip": {"float32": "slow"}}, r"Case 'exp': skip names float32, but the precisions are f32, f64\."),
        ({"doc": "Powers of e"}, r"Case 'exp': doc has to be a sentence of one line .*, not 'Powers of e'\."),
        ({"doc": "Powers\nof e."}, r"Case 'exp': doc has to be a sentence of one line .*, not 'Powers\\nof e\.'\."),
    ],
)
def test_values_that_mean_nothing_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Case("exp", math.exp, **fields)
