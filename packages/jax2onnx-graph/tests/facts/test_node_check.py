"""Nodes that the schema of their operator does not allow."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.build.attributes import attributes_of
from jax2onnx_graph.errors import RuleError
from jax2onnx_graph.facts.node_check import check_node, check_operands
from jax2onnx_graph.targets import Target, standard_target

FLOAT, INT32 = ir.DataType.FLOAT, ir.DataType.INT32


def value(dtype: ir.DataType) -> ir.Value:
    return ir.Value(type=ir.TensorType(dtype))


def node(op_type, operands, results=(FLOAT,), **attributes):
    outputs = [value(dtype) for dtype in results]
    return ir.Node("", op_type, [value(dtype) for dtype in operands], attributes_of(attributes), outputs=outputs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (node("Concat", [FLOAT]), "Concat of opset 23 needs the attribute axis."),
        (node("Tanh", [FLOAT], axis=1), "Tanh of opset 23 has no attribute 'axis'; it has: none."),
        (
            node("Softmax", [FLOAT], axis=1.5),
            "The attribute axis of Softmax of opset 23 is of type INT, not FLOAT (1.5).",
        ),
        (node("Tanh", [FLOAT], [FLOAT, FLOAT]), "Tanh of opset 23 has 1 results, not 2."),
        (
            node("Add", [FLOAT, INT32]),
            (
                "Operand 1 (B) of Add is INT32, but it has to be FLOAT, as the one before it; convert one of them by "
                "ctx.cast(x, dtype)."
            ),
        ),
        (node("Tanh", [INT32], [INT32]), "Tanh of opset 23 takes no INT32 as its operand 0 (input)."),
    ],
)
def test_what_a_schema_does_not_allow(wrong, message):
    with pytest.raises(RuleError) as error:
        check_node(wrong, 23, standard_target.computes)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ([value(FLOAT)], "Add of opset 23 takes 2 operands, not 1."),
        ([value(FLOAT), None], "Operand 1 of Add cannot be left out."),
        (
            [value(FLOAT), 2.0],
            "Operand 1 of Add is 2.0, not a value of the graph; write ctx.constant(2.0, like=x) with another operand x.",
        ),
    ],
)
def test_operands_that_a_schema_does_not_allow(operands, message):
    with pytest.raises(RuleError) as error:
        check_operands("Add", 23, operands)
    assert str(error.value) == message


def test_an_operator_that_does_not_exist():
    with pytest.raises(RuleError, match=r"Opset 23 of ONNX has no operator Foo\."):
        check_operands("Foo", 23, [])


def test_a_type_that_legalisation_carries():
    class Carrying(Target):
        def supports(self, op_type: str, dtype: np.dtype, opset: int) -> bool:
            return True

    check_node(node("Tanh", [INT32], [INT32]), 23, Carrying().computes)


def test_types_that_may_differ():
    check_node(node("Pow", [FLOAT, INT32]), 23, standard_target.computes)
    check_operands("Clip", 23, [value(FLOAT), None, value(FLOAT)])
