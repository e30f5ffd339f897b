"""Formulas read backwards from a value of a graph given as text."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import pytest
from jax2onnx_graph.rewrite.patterns import (
    Formula,
    copied,
    is_floating,
    is_read_once,
    matches,
    only_reader,
    operation,
    other_operand,
    permutation_of,
    product,
    scalar,
    source_of,
    square_of,
    without_axis,
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


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [("float[0] c = {}", None), ("float[3] c = {2, 2, 2}", 2.0), ("float[3] c = {2, 2, 3}", None), ("bool c = {1}", None), ("int64[2] c = {-3, -3}", -3.0),
     ("int64 c = {9007199254740993}", 2**53 + 1),
     ("float[2] c = {inf, inf}", math.inf), ("float[2] c = {nan, nan}", None), ("float c = {0}", 0.0)],
)  # fmt: skip
def test_the_number_of_a_constant(numbers, expected):
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float x) => (float y) <{numbers}> {{ y = Identity(c) }}'
    node = ir.from_onnx_text(text).graph[0]
    assert scalar(node.inputs[0]) == expected


def test_large_constants_are_not_looked_at_for_a_number():
    constants = [ir.Value(name="c", const_value=ir.tensor([1.0] * size)) for size in (1024, 1025)]
    assert [scalar(constant) for constant in constants] == [1, None]
    assert scalar(constants[1], 1025) == 1


@pytest.mark.parametrize(
    ("before", "after", "axis", "is_without"),
    [
        ("2,3", "2,1,3", 1, True), ("2,3", "2,1,3", 0, False), ("2,3", "2,1,3", 2, False), ("2,3", "2,3,1", 2, True), ("2,3", "1,2,3", 0, True),
        ("1,3", "1,1,3", 0, True), ("1,3", "1,1,3", 1, True), ("2,3", "3,2", 0, False), ("2,3", "2,3,1,1", 2, False), ("2,3", "3,1,2", 1, False),
        ("N,3", "N,1,3", 1, True), ("N,3", "M,1,3", 1, False), ("N,3", "N,1,4", 1, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("operator", ["Reshape", "Unsqueeze", "Expand"])
def test_a_value_without_an_axis(before, after, axis, is_without, operator):
    text = f"""<ir_version: 10, opset_import: ["" : 23]> g (float[{before}] x, int64[1] s) => (float[{after}] y) {{
        y = {operator}(x, s) }}"""
    made = ir.from_onnx_text(text).graph
    found = without_axis(made.outputs[0], axis)
    assert found is (made.inputs[0] if is_without and operator != "Expand" else None)


def test_what_values_are_made_of():
    made = graph("a = Identity(x) b = Identity(a) c = Neg(b) d = Exp(c) y = Identity(d)")
    y, x = made.outputs[0], made.inputs[0]
    assert copied(y).name == "d"
    assert copied(x) is x
    assert source_of(y, "Identity", "Exp").name == "c"
    assert source_of(y, "Identity", "Exp", "Neg") is x
    assert source_of(None, "Identity") is None
    assert is_floating(x)
    assert not is_floating(None)
    assert not is_floating(ir.Value(name="u"))
    assert not is_floating(ir.val("i", ir.DataType.INT32, ()))


def test_a_value_that_is_read_once():
    read = graph("a = Exp(x) b = Log(a) y = Add(b, z)")
    assert is_read_once(read[0].outputs[0])
    assert only_reader(read[0].outputs[0]) is read[1]
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


SCALED = Formula("Mul", "a", "k")
MATCHED: dict[str, tuple[str, Any, list[dict[str, str]]]] = {
    "an operator": ("y = Exp(x)", Formula("Exp", "a"), [{"a": "x"}]),
    "another operator": ("y = Exp(x)", Formula("Log", "a"), []),
    "an operator of operators": ("e = Exp(x) y = Neg(e)", Formula("Neg", Formula("Exp", "a")), [{"a": "x"}]),
    "operands in both orders": ("y = Mul(x, z)", SCALED, [{"a": "x", "k": "z"}, {"a": "z", "k": "x"}]),
    "operands in their order": ("y = Sub(x, z)", Formula("Sub", "a", "b"), [{"a": "x", "b": "z"}]),
    "a number": ("y = Mul(two, x)", Formula("Mul", "a", 2), [{"a": "x"}]),
    "another number": ("y = Mul(two, x)", Formula("Mul", "a", 3), []),
    "one value twice": ("e = Mul(x, z) y = Add(e, z)", Formula("Add", SCALED, "k"), [{"a": "x", "k": "z"}]),
    "two values for one name": ("e = Mul(x, z) y = Sub(e, x)", Formula("Sub", Formula("Div", "a", "k"), "k"), []),
    "one of several": ("y = Exp(x)", (Formula("Log", "a"), Formula("Exp", "a")), [{"a": "x"}]),
    "another number of operands": ("y = Max(x, z, two)", Formula("Max", "a", "b"), []),
}


@pytest.mark.parametrize("name", MATCHED)
def test_values_that_the_names_of_a_pattern_stand_for(name):
    body, pattern, expected = MATCHED[name]
    found = [{name: one.name for name, one in way.items()} for way in matches(pattern, value(body))]
    assert found == expected


def test_names_of_a_pattern_that_are_bound():
    y = value("y = Mul(x, z)")
    x, z = y.producer().inputs
    assert x is not None
    assert list(matches(SCALED, y, {"k": x})) == [{"k": x, "a": z}]
    assert list(matches(SCALED, y, {"k": y})) == []
