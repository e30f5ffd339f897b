"""How a limitation is recognised as the reason of a failure."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.limitations import Limitation

MODEL = '<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Mod<fmod = 1>(x, x) }'
CASE, MESSAGE = "lax.integer::rem", "differs in 1 of 3 elements: nan instead of 0.0"


@pytest.mark.parametrize(
    "criteria",
    [
        {"operators": ("Sin", "Mod")},
        {"operators": ("Mod",), "dtypes": ("float32",)},
        {"cases": ("*::rem",)},
        {"message": r"\bnan\b"},
        {"operators": ("Mod",), "cases": ("*::rem",), "message": "nan"},
    ],
)
def test_all_criteria_that_are_given_hold(criteria):
    assert Limitation("Mod", "It is lost.", **criteria).explains(ir.from_onnx_text(MODEL), CASE, MESSAGE)


@pytest.mark.parametrize(
    "criteria",
    [
        {},
        {"operators": ("Sin",)},
        {"operators": ("Mod",), "dtypes": ("int32",)},
        {"cases": ("*::sin",), "operators": ("Mod",)},
        {"message": "inf", "cases": ("*::rem",)},
    ],
)
def test_another_failure_is_not_explained(criteria):
    assert not Limitation("Mod", "It is lost.", **criteria).explains(ir.from_onnx_text(MODEL), CASE, MESSAGE)
