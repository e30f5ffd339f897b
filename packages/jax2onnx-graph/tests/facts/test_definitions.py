"""ONNX's own definitions of operators by others."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.definitions import definition_of


def node(body: str) -> ir.Node:
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float[2,3] x) => (float[2,3] y) {{ {body} }}'
    made = ir.from_onnx_text(text).graph.outputs[0].producer()
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("body", "operators"), [("y = HardSwish(x)", {"HardSigmoid", "Mul"}), ("y = Softplus(x)", {"Exp", "Add", "Log"})]
)
def test_an_operator_is_defined_by_others(body, operators):
    definition = definition_of(node(body), 23)
    assert definition is not None
    assert operators <= {inner.op_type for inner in definition}


@pytest.mark.parametrize(
    "body", ["y = Exp(x)", "y = Nonsense(x)", "y = own.Gelu(x)"], ids=["primitive", "no operator", "of another domain"]
)
def test_others_have_no_definition(body):
    made = node(body.replace("own.", ""))
    made.domain = "own" if "own." in body else ""
    assert definition_of(made, 23) is None


def test_an_operator_of_a_later_opset_has_no_definition():
    assert definition_of(node("y = Gelu(x)"), 19) is None
    assert definition_of(node("y = Gelu(x)"), 20) is not None
