"""Operators that a target lacks, written as their schemas define them."""

from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.expand_functions import ExpandFunctions

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


@pytest.mark.parametrize(
    ("operator", "body"),
    [
        ("Clip", "low = Constant<value = float {-1.0}>() y = Clip(x, low)"),
        ("Softmax", "y = Softmax<axis = 1>(x)"),
        (
            "LayerNormalization",
            "s = Constant<value = float[3] {1.0, 2.0, 3.0}>() y = LayerNormalization<epsilon = 0.5>(x, s)",
        ),
        ("Relu", "y = Relu(x)"),
        ("LeakyRelu", "y = LeakyRelu<alpha = 0.3>(x)"),
    ],
)
def test_the_function_takes_the_place_of_the_operator(rewrite, limited, operator, body):
    """Rule 1: values stay, and the operator is gone."""
    text = f"{HEAD} g (float[2,3] x) => (float[2,3] y) {{ {body} }}"
    assert operator + "(" not in rewrite(ExpandFunctions(limited(operator)), text)[0].replace("{", "(")


@pytest.mark.parametrize(
    "operator",
    ["Elu", "Selu", "LeakyRelu", "ThresholdedRelu", "Shrink", "HardSigmoid", "Celu", "Softmax", "LogSoftmax", "Softplus", "Softsign"],
)  # fmt: skip
def test_attributes_that_are_not_given_have_their_defaults(rewrite, limited, operator):
    text = f"{HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = {operator}(x) }}"
    assert f"{operator}(" not in rewrite(ExpandFunctions(limited(operator)), text)[0].replace("{", "(")


def test_what_the_target_has_stays(rewrite):
    """Rule 1: only operators that the target lacks."""
    text = f"{HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = Softmax(x) }}"
    assert rewrite(ExpandFunctions(), text) == ["Softmax(x)"]


def test_a_body_that_holds_a_graph_is_not_used(rewrite, limited):
    """Rule 2: Range is defined by a Loop."""
    text = f"{HEAD} g (float x) => (float[N] y) <float zero = {{0}}, float one = {{1}}> {{ y = Range(zero, x, one) }}"
    assert "Range" in rewrite(ExpandFunctions(limited("Range")), text)[0]
