"""Proposals of expectations, and where they are written."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_core import Case, expect_graph
from jax2onnx_testing.emitter import expectation_of, insert_expectations
from jax2onnx_testing.matcher import match_graph


def model(body: str) -> ir.Model:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23, "my" : 1]>\n{body}')
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def chain(length: int, operator: str = "Exp") -> ir.Model:
    steps = "".join(f"x{i + 1} = {operator}(x{i})" for i in range(length))
    return model(f"g (float[B] x0) => (float[B] x{length}) {{ {steps} }}")


DIAMOND = model("g (float[B,4] x) => (float[B,4] z) { a = Exp(x) b = Neg(a) c = Abs(a) z = Add(b, c) }")
CALL = model("""g (float[B] x) => (float[B] y) { y = my.f(x) }
<domain: "my", opset_import: ["" : 23]> f (a) => (b) { c = Exp(a) b = Neg(c) }""")
UNKNOWN = model("g (float[B] x) => (z) { y = my.f(x) z = Exp(y) }")
COPY = model("g (float[B] x) => (float[B] x) { }")
WIDE = model(
    f"g (float[B] x) => (float[B] y) {{ {''.join(f'a{i} = Exp(x)' for i in range(11))} y = Sum({', '.join(f'a{i}' for i in range(11))}) }}"
)
BRANCH = model(
    "g (bool p, float[B] x) => (float[B] y) { a = If (p) <then_branch = t () => (float[B] b) { b = Exp(x) },"
    f" else_branch = e () => (float[B] c) {{ c = Neg(x) }}> {''.join(f'a{i} = Exp(a)' for i in range(12))} y = Sum(a, {', '.join(f'a{i}' for i in range(12))}) }}"
)


@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("graph", [chain(1), chain(12), chain(13), DIAMOND, CALL, COPY, WIDE, BRANCH, UNKNOWN])
def test_a_proposal_matches_its_own_graph(graph, shapes):
    proposal = eval(expectation_of(graph, shapes=shapes), {"expect_graph": expect_graph})
    for expectation in Case("any", abs, expect=proposal).expectations:
        match_graph(graph, expectation)


@pytest.mark.parametrize(
    ("graph", "proposal"),
    [
        (chain(2), '"Exp -> Exp"'),
        (DIAMOND, '["Exp -> Neg -> Add", "Abs -> Add"]'),
        (CALL, '"my.f"'),
        (COPY, 'expect_graph(match="exact")'),
        (chain(13), 'expect_graph(absent=["If", "Loop", "Scan"], at_most=20)'),
        (chain(13, "Softmax"), 'expect_graph(counts={"Softmax": 13}, at_most=20)'),
        (BRANCH, 'expect_graph(counts={"If": 1}, at_most=20)'),
    ],
)
def test_long_graphs_are_described_by_the_operators_that_matter(graph, proposal):
    assert expectation_of(graph) == proposal


def test_proposals_may_say_shapes():
    assert expectation_of(DIAMOND, shapes=True) == '["Exp:Bx4 -> Neg:Bx4 -> Add:Bx4", "Abs:Bx4 -> Add:Bx4"]'


SOURCE = """
cases = [
    Case("one", f, [(2,)]),
    Case("two", f, [(2,)], expect="Exp"),
    Case(
        "three", f, options={"é": 1}
    ),
    Case("four", f, [(2,)], ("exp",), "Exp"),
    made("five", f),
    Case(
        "six",
        ("f"
         "é"),  # a comment, (with brackets)
    ),
]
"""
WRITTEN = """
cases = [
    Case("one", f, [(2,)], expect="Neg"),
    Case("two", f, [(2,)], expect="Exp"),
    Case(
        "three", f, options={"é": 1},
        expect="Neg"
    ),
    Case("four", f, [(2,)], ("exp",), "Exp"),
    made("five", f),
    Case(
        "six",
        ("f"
         "é"),
        expect="Neg",  # a comment, (with brackets)
    ),
]
"""


def test_expectations_are_written_where_there_is_none():
    names = ["one", "two", "three", "four", "five", "six"]
    source, left = insert_expectations(SOURCE, dict.fromkeys(names, '"Neg"'))
    assert source == WRITTEN
    assert left == ["two", "four", "five"]


def test_a_long_expectation_has_lines_of_its_own():
    long = " -> ".join(["Exp"] * 20)
    source, _ = insert_expectations('    Case("one", f)'.lstrip(), {"one": f'"{long}"'})
    assert source == f'Case("one", f,\n     expect="{long}")'


@pytest.mark.parametrize("call", ['Case("one", f, **common)', 'Case("one", *common)'])
def test_a_call_that_unpacks_arguments_is_left_as_it_is(call):
    assert insert_expectations(call, {"one": '"Exp"'}) == (call, ["one"])
