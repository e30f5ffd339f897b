"""`expect_graph` against graphs given as text."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_core import expect_graph
from jax2onnx_testing.matcher import GraphMismatchError, match_graph


def model(body: str, opset: int = 23) -> ir.Model:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "my" : 1]>\n{body}')
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


CHAIN = model("g (float[B,4] x, float[4,3] w) => (float[B,3] z) { a = MatMul(x, w) b = Relu(a) z = Tanh(b) }")
DIAMOND = model("g (float[B,4] x) => (float[B,4] z) { a = Exp(x) b = Neg(a) c = Abs(a) z = Add(b, c) }")
SCALAR = model("g (float[B] x) => (float z) { z = ReduceSum<keepdims=0>(x) }")
BRANCHES = model(
    "g (bool p, float[B] x) => (float[B] y) { y = If (p) <then_branch = t () => (float[B] a) { a = Exp(x) },"
    " else_branch = e () => (float[B] b) { b = Neg(x) }> }"
)
GATHERED = model("g (float[B,4] x, int64[2] i) => (float[B,2] z) { z = Gather<axis=1>(x, i) }")
LEAKY = model("g (float[B] x) => (float[B] z) { y = LeakyRelu<alpha=0.1>(x) z = LeakyRelu<alpha=0.2>(y) }")
PERMUTED = model("g (float[B,4] x) => (float[4,B] z) { z = Transpose<perm=[1, 0]>(x) }")
UNUSED = model("g (float[B] x, float[B] y) => (float[B] z) { z = Exp(x) }")
UNUSED_INSIDE = model(
    """g (float[B] x) => (float[B] y) { y = my.f(x, x) }
    <domain: "my", opset_import: ["" : 23]> f (a, c) => (b) { b = Exp(a) }"""
)
TRANSPOSED = model("g (float[B,4] x) => (float[4,B] z) { a = Exp(x) z = Transpose<perm = [1, 0]>(a) }")
SQUARE = model("g (float[4,4] x) => (float[4,4] z) { a = Exp(x) z = Transpose<perm = [1, 0]>(a) }")
ANY = {"N": None, "M": None}
JOINED = model('g (float[B] x) => (z) { z = my.f<names=["a"], name="a">(x) }')
COPY = model("g (float[B] x) => (float[B] x) { }")
CALL = model(
    """g (float[B] x) => (float[B] y) { y = my.f(x) }
    <domain: "my", opset_import: ["" : 23]> f (a) => (b) { c = Exp(a) b = Neg(c) }"""
)


@pytest.mark.parametrize(
    ("graph", "expectation"),
    [
        (CHAIN, expect_graph("MatMul:Bx3 -> Relu:Bx3 -> Tanh:Bx3", match="exact")),
        (CHAIN, expect_graph("MatMul -> Relu")),
        (CHAIN, expect_graph("Relu:?x3 -> Tanh:Bx?")),
        (CHAIN, expect_graph("MatMul:Nx3", symbols={"N": None})),
        (CHAIN, expect_graph("MatMul:BxC", symbols={"C": 3})),
        (TRANSPOSED, expect_graph("Exp:NxM -> Transpose:MxN", symbols=ANY)),
        (SQUARE, expect_graph("Exp:NxM -> Transpose:NxM", symbols=ANY)),
        (SQUARE, expect_graph("Exp:NxN", symbols=ANY)),
        (DIAMOND, expect_graph("Exp:NxM -> Neg:NxM -> Add", symbols=ANY)),
        (CHAIN, expect_graph(counts={"Relu": 1}, absent=["Transpose"])),
        (CHAIN, expect_graph("MatMul", counts={"Relu": 1, "Tanh": 1}, match="exact")),
        (DIAMOND, expect_graph("Exp -> Neg -> Add", "Exp -> Abs -> Add", match="exact")),
        (DIAMOND, expect_graph("Exp -> ? -> Add")),
        (SCALAR, expect_graph("ReduceSum:()")),
        (BRANCHES, expect_graph("If", match="exact")),
        (BRANCHES, expect_graph("If", "Exp", "Neg", match="exact", search_functions=True)),
        (CALL, expect_graph("my.f:B", match="exact")),
        (CALL, expect_graph("Exp -> Neg", search_functions=True)),
        (CHAIN, expect_graph("MatMul", at_most=3)),
        (COPY, expect_graph(match="exact")),
        (GATHERED, expect_graph(attrs={"Gather": {"axis": 1}})),
        (PERMUTED, expect_graph(attrs={"Transpose": {"perm": (1, 0)}})),
        (SCALAR, expect_graph(attrs={"ReduceSum": {"keepdims": 0, "noop_with_empty_axes": None}})),
        (LEAKY, expect_graph(attrs={"LeakyRelu": {}})),
        (
            JOINED,
            expect_graph(
                "my.f:?", attrs={"my.f": {"names": ("a",), "name": "a", "other": None}}, absent=["my.g", "Relu"]
            ),
        ),
        (CHAIN, expect_graph(no_unused_inputs=True)),
        (BRANCHES, expect_graph(no_unused_inputs=True)),
        (COPY, expect_graph(no_unused_inputs=True)),
        (UNUSED_INSIDE, expect_graph(no_unused_inputs=True)),
    ],
)
def test_what_is_there_matches(graph, expectation):
    match_graph(graph, expectation)


@pytest.mark.parametrize(
    ("graph", "expectation", "message"),
    [
        (CHAIN, expect_graph("MatMul -> Tanh"), "It fits as far as MatMul:Bx3; then comes Relu:Bx3, not Tanh."),
        (CHAIN, expect_graph("Tanh -> Relu"), "then comes the end of the graph"),
        (CHAIN, expect_graph("Conv"), "there is no Conv."),
        (CHAIN, expect_graph("MatMul:Bx4"), "there is no MatMul:Bx4. MatMul has the shapes Bx3."),
        (CHAIN, expect_graph("MatMul -> Relu", match="exact"), "Operators that no path names: Tanh:Bx3."),
        (CHAIN, expect_graph(counts={"Relu": 2}), "Expected 2 Relu, found 1."),
        (CHAIN, expect_graph(absent=["Relu"]), "Expected no Relu, found 1."),
        (CHAIN, expect_graph("MatMul:BxC", symbols={"C": 5}), "there is no MatMul:BxC"),
        (
            TRANSPOSED,
            expect_graph("Exp:NxM -> Transpose:NxM", symbols=ANY),
            "as far as Exp:Bx4; then comes Transpose:4xB",
        ),
        (TRANSPOSED, expect_graph("Exp:NxN", symbols=ANY), "there is no Exp:NxN"),
        (CHAIN, expect_graph("MatMul:Bx3x1"), "there is no MatMul:Bx3x1"),
        (DIAMOND, expect_graph("Exp -> Neg -> Add", match="exact"), "no path names: Abs:Bx4"),
        (BRANCHES, expect_graph("Exp"), "there is no Exp"),
        (CHAIN, expect_graph(at_most=2), "Expected at most 2 operators, found 3."),
        (GATHERED, expect_graph(attrs={"Gather": {"axis": 0}}), "Gather:Bx2 → z has axis=1, not axis=0."),
        (CHAIN, expect_graph(attrs={"Relu": {"alpha": 1.0}}), "Relu:Bx3 → b has no alpha, not alpha=1."),
        (GATHERED, expect_graph(attrs={"Gather": {"axis": None}}), "Gather:Bx2 → z has axis=1, not no axis."),
        (LEAKY, expect_graph(attrs={"LeakyRelu": {"alpha": 0.1}}), "LeakyRelu:B → z has alpha=0.2, not alpha=0.1."),
        (CHAIN, expect_graph(attrs={"Gather": {"axis": 0}}), "Expected attributes of Gather, found no such operator."),
        (JOINED, expect_graph("my.f:B"), "there is no my.f:B. my.f has the shapes ?."),
        (CHAIN, expect_graph("Relu:?"), "there is no Relu:?. Relu has the shapes Bx3."),
        (CHAIN, expect_graph(absent=["Transposed"]), "ONNX has no operator 'Transposed'"),
        (CHAIN, expect_graph(counts={"relu": 0}), "ONNX has no operator 'relu'"),
        (CHAIN, expect_graph(absent=["Constant"]), "Nodes of Constant are not counted"),
        (CHAIN, expect_graph(counts={"Constant": 0}), "Nodes of Constant are not counted"),
        (CHAIN, expect_graph(counts={"relu": 1}), "Expected 1 relu, found 0."),
        (GATHERED, expect_graph(attrs={"Gather": {"axes": None}}), "Gather has no attribute 'axes'"),
        (JOINED, expect_graph(attrs={"my.f": {"names": "a"}}), "my.f:? → z has names=('a',), not names='a'."),
        (JOINED, expect_graph(attrs={"my.f": {"name": ("a",)}}), "my.f:? → z has name='a', not name=('a',)."),
        (JOINED, expect_graph(attrs={"my.f": {"names": ("a", "b")}}), "has names=('a',), not names=('a', 'b')."),
        (UNUSED, expect_graph(no_unused_inputs=True), "The input 'y' is not used."),
        (
            UNUSED_INSIDE,
            expect_graph(search_functions=True, no_unused_inputs=True),
            "The input 'c' of my.f is not used.",
        ),
    ],
)
def test_a_difference_is_shown_with_the_graph(graph, expectation, message):
    with pytest.raises(GraphMismatchError) as failure:
        match_graph(graph, expectation)
    assert message in str(failure.value)
    assert "The graph:" in str(failure.value)


def test_two_equal_operators_need_two_places_in_an_exact_match():
    graph = model("g (float[B] x) => (float[B] z, float[B] y) { z = Exp(x) y = Exp(z) }")
    with pytest.raises(GraphMismatchError, match="no path names"):
        match_graph(graph, expect_graph("Exp", match="exact"))
    match_graph(graph, expect_graph("Exp", "Exp", match="exact"))


def test_a_dimension_that_is_an_expression_is_matched_as_text():
    graph = model('g (float["2*T + 1",4] x) => (float["2*T + 1",4] y) { y = Exp(x) }')
    match_graph(graph, expect_graph("Exp:2*T + 1x4"))


def test_an_attribute_in_float32_is_compared_as_such():
    stored = ir.from_proto(ir.to_proto(LEAKY))
    with pytest.raises(GraphMismatchError) as failure:
        match_graph(stored, expect_graph(attrs={"LeakyRelu": {"alpha": 0.2}}))
    assert str(failure.value).startswith("LeakyRelu:B → y has alpha=0.1, not alpha=0.2.\nThe graph:")


def test_a_failure_shows_the_graph_with_its_operands():
    graph = model("g (float[B,3] x, float high) => (float[B,3] y) { z = Clip(x, , high) y = Exp(z) }")
    with pytest.raises(GraphMismatchError) as failure:
        match_graph(graph, expect_graph("Tanh"))
    assert str(failure.value).endswith("\n  Clip:Bx3  (x, , high) → z\n  Exp:Bx3  (z) → y")


def test_an_empty_step_is_refused():
    with pytest.raises(ValueError, match="names no operator"):
        match_graph(CHAIN, expect_graph("MatMul -> "))


def test_an_expectation_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing is expected"):
        expect_graph()
