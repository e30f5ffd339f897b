"""Formulas read backwards from a value of a graph given as text."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.rewrite.patterns import (
    is_read_once,
    operation,
    other_operand,
    permutation_of,
    product,
    scalar,
    square_of,
)


def graph(body: str, *outputs: str) -> ir.Graph:
    shown = ", ".join(f"float[2,3] {name}" for name in ("y", *outputs))
    constants = (
        "float two = {2}, float[2] same = {3, 3}, float[2] others = {3, 4}, int64[2] shape = {2, 3}, float half = {0.5}"
    )
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float[2,3] x, float[2,3] z) => ({shown}) <{constants}> {{ {body} }}'
    return ir.from_onnx_text(text).graph


def value(body: str) -> ir.Value:
    return graph(body).outputs[0]


def node_of(body: str) -> ir.Node:
    node = value(body).producer()
    assert node is not None
    return node


def test_the_node_of_a_value_by_its_operators_of_the_standard():
    y = value("y = Exp(x)")
    assert operation(y, "Log", "Exp") is y.producer()
    assert operation(y, "Log") is operation(None, "Exp") is None
    foreign = ir.Node("own", "Exp", [y])
    assert operation(foreign.outputs[0], "Exp") is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [("y = Add(x, two)", 2), ("y = Add(x, same)", 3), ("y = Add(x, others)", None), ("y = Add(x, z)", None),
     ("e = Expand(two, shape) y = Add(x, e)", 2), ("e = Cast<to = 9>(two) y = Add(x, e)", None)],
)  # fmt: skip
def test_the_number_that_all_elements_are(body, expected):
    assert scalar(value(body).producer().inputs[1]) == expected


def test_a_value_that_is_read_once():
    read = graph("a = Exp(x) b = Log(a) y = Add(b, z)")
    assert is_read_once(read[0].outputs[0])
    assert not is_read_once(read.outputs[0])
    twice = graph("a = Exp(x) y = Mul(a, a)")
    assert not is_read_once(twice[0].outputs[0])
    with_dead_reader = graph("a = Exp(x) b = Log(a) y = Neg(a)")
    assert is_read_once(with_dead_reader[0].outputs[0])
    also_output = graph("a = Exp(x) y = Neg(a)", "a")
    assert not is_read_once(also_output[0].outputs[0])


def test_the_other_operand():
    node = node_of("y = Add(x, z)")
    x, z = node.inputs
    assert (other_operand(node, x), other_operand(node, z)) == (z, x)


def test_a_transpose_without_a_permutation_reverses_the_axes():
    assert permutation_of(node_of("y = Transpose(x)")) == (1, 0)
    assert permutation_of(node_of("y = Transpose<perm = [0, 1]>(x)")) == (0, 1)


PRODUCTS = {
    "factors": ("a = Mul(x, z) y = Mul(a, two)", 2, {"x": 1, "z": 1}),
    "powers": ("a = Pow(x, two) y = Mul(a, x)", 1, {"x": 3}),
    "quotients by numbers": ("a = Div(x, two) y = Neg(a)", -0.5, {"x": 1}),
    "quotients by others": ("y = Div(x, z)", 1, {"y": 1}),
    "other powers": ("y = Pow(x, half)", 1, {"y": 1}),
    "what others read": ("a = Mul(x, z) b = Exp(a) c = Mul(a, b) y = Mul(c, two)", 2, {"a": 1, "b": 1}),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_taken_apart(name):
    body, coefficient, factors = PRODUCTS[name]
    found = product(value(body))
    assert (found.coefficient, {factor.name: count for factor, count in found.factors.items()}) == (
        coefficient,
        factors,
    )


def test_a_product_without_one_of_its_factors():
    found = product(value("a = Mul(x, x) y = Mul(a, z)"))
    x, z = sorted(found.factors, key=lambda factor: str(factor.name))
    assert found.without(z).factors == {x: 2}
    assert found.without(x).factors == {x: 1, z: 1}
    assert found.without(x).without(x).without(x) is None


@pytest.mark.parametrize(
    ("body", "is_square"),
    [("y = Mul(x, x)", True), ("y = Pow(x, two)", True), ("y = Mul(x, z)", False), ("y = Pow(x, half)", False)],
)
def test_squares(body, is_square):
    y = value(body)
    assert square_of(y) is (y.producer().inputs[0] if is_square else None)
