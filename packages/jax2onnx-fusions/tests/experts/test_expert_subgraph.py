"""What experts compute of tokens, and why something else is not computed for the chosen pairs alone."""

from __future__ import annotations

import dataclasses

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes
from jax2onnx_fusions.experts._expert_subgraph import ExpertSubgraph, Refused, is_weight
from jax2onnx_graph.facts.sizes import LabelledDim
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import dims_of

INPUTS = """float[T,4] x, float[8,4,3] u, float[8,3,4] d, float[3,3] w, float[8,1,3] b, float[3] c, float[T,3] v, float[T,8] p, float[8,4,N] z,
    float[T,4,2] rows, float[4,3] a, float[1,4] one, float[S,4] s, float[8,T,3] h8, float[8,T,2,3] h23,
    float[8,T,3,2] h32, float[8,1,3,4] d4, float[2,3,5] w2, float[T,T,3] pp, float[8,T,T,3] h9, float[T,3] q3"""
HEAD = """a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>() a2 = Constant<value = int64[1] {2}>() a3 = Constant<value = int64[1] {3}>()
    half = Constant<value = float {0.5}>() k2 = Constant<value = int64 {2}>() wide = Constant<value = int64[3] {1, 1, 3}>()
    none = Constant<value = int64[3] {1, 1, 0}>() xu = Unsqueeze(x, a0) h = MatMul(xu, u) """
#: [experts, tokens, features].
ROLES = ExpertAxes((SubAxis(1),), SubAxis(0))


def value_of(body: str, name: str = "y") -> tuple[ir.Value, tuple[LabelledDim, ...]]:
    """A value, and the numbers of tokens."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> m ({INPUTS}) => (float {name}) {{ {HEAD} {body} }}'
    )
    proto.graph.output[0].ClearField("type")
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph
    return graph.outputs[0], (dims_of(graph.inputs[0]) or ())[:1]


def subgraph(body: str, roles: ExpertAxes = ROLES) -> ExpertSubgraph:
    """The nodes that compute y."""
    value, tokens = value_of(body)
    region = ExpertSubgraph(value.graph, Sizes(tokens, 8))
    region.add(value, roles)
    return region


@pytest.mark.parametrize(
    ("body", "operators", "leaves", "weights", "products"),
    [
        ("y = Identity(h)", "MatMul Identity", "xu u", 96, 1), ("y = Add(h, b)", "MatMul Add", "xu u b", 96, 1),
        ("y = Clip(h, , half)", "MatMul Clip", "xu u", 96, 1), ("y = Add(h, c)", "MatMul Add", "xu u", 96, 1), ("r = Relu(h) y = MatMul(r, d)", "MatMul Relu MatMul", "xu u d", 192, 2),
        ("y = MatMul(h, w)", "MatMul MatMul", "xu u", 96, 1), ("vu = Unsqueeze(v, a0) y = Mul(h, vu)", "MatMul Mul", "xu u vu", 96, 1),
        ("y = Mul(h, h8)", "MatMul Mul", "xu u h8", 96, 1), ("y = Softmax<axis = 2>(h)", "MatMul Softmax", "xu u", 96, 1),
        ("y = Softmax<axis = -1>(h)", "MatMul Softmax", "xu u", 96, 1), ("y = ReduceSum(h, a2)", "MatMul ReduceSum", "xu u", 96, 1),
        ("y = Concat<axis = 2>(h, h8)", "MatMul Concat", "xu u h8", 96, 1),
        ("i, y = Split<axis = 2, num_outputs = 3>(h)", "MatMul Split", "xu u", 96, 1),
        ("y = Slice(h, a0, a1, a2)", "MatMul Slice", "xu u", 96, 1), ("y = CumSum(h, k2)", "MatMul CumSum", "xu u", 96, 1),
        ("e = Expand(h, wide) y = Neg(e)", "MatMul Expand Neg", "xu u", 96, 1),
        ("t = Transpose<perm = [0, 2, 1]>(u) g = Transpose<perm = [0, 2, 1]>(t) y = MatMul(xu, g)", "MatMul", "xu g", 96, 1),
        ("h2 = Unsqueeze(h, a2) y = MatMul(h2, w)", "MatMul Unsqueeze MatMul", "xu u", 96, 1),
        ("h2 = Unsqueeze(h, a3) y = MatMul(w, h2)", "MatMul Unsqueeze MatMul", "xu u", 96, 1),
    ],
)  # fmt: skip
def test_the_nodes_of_experts(body, operators, leaves, weights, products):
    region = subgraph(body)
    assert " ".join(node.op_type for node in region.steps) == operators
    assert " ".join(str(leaf.name) for leaf in region.leaves) == leaves
    assert (region.weights, region.products) == (weights, products)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = Softmax<axis = 1>(h)", "Softmax computes tokens or experts of each other"),
        ("y = CumSum(h, a0)", "CumSum computes tokens or experts of each other"),
        ("y = Concat<axis = 0>(h8, h8)", "Concat computes tokens or experts of each other"),
        ("q = Unsqueeze(h, a2) k = Unsqueeze(h8, a3) y = MatMul(q, k)", "both operands of a MatMul differ by token"),
        ("y = MatMul(xu, z)", "an axis of an expert has a size that is not known"),
        ("t = Slice(h, a0, a1, a2) y = Expand(t, none)", "an axis is empty"),
        ("y = Gather<axis = 2>(h, a1)", "Gather is not computed for each token by itself, as far as is known"),
        ("y = ReduceSum(h)", "ReduceSum computes tokens or experts of each other"),
        ("y = MatMul(h23, d4)", "a token has several rows of features"), ("y = MatMul(w, h32)", "a token has several rows of features"),
        ("q = Unsqueeze(h23, a3) y = MatMul(q, w2)", "a product has other axes than tokens and features"),
        (" ".join(f"t{i} = Neg(t{i - 1})" for i in range(1, 600)).replace("t0", "h") + " y = Neg(t599)", "an expert has too many nodes"),
    ],
)  # fmt: skip
def test_what_is_refused(body, reason):
    with pytest.raises(Refused, match=f"^{reason}$"):
        subgraph(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Neg(u)", False), ("y = Identity(u)", False), ("y = Cast<to = 1>(u)", True), ("y = Transpose(u)", True), ("y = Unsqueeze(u, a0)", True),
        ("y = Unsqueeze(half, a0)", True), ("y = MatMul(x, a)", False), ("t = Neg(u) y = Transpose(t)", False), ("y = Sqrt(half)", False),
    ],
)  # fmt: skip
def test_weights_are_views_of_inputs(body, expected):
    assert is_weight(value_of(body)[0]) is expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("f = Unsqueeze(pp, a0) y = Add(h9, f)", None), ("t = Transpose<perm = [1, 0, 2]>(pp) f = Unsqueeze(t, a0) y = Add(h9, f)", None),
        ("f = Unsqueeze(pp, a0) t = Transpose<perm = [1, 0, 2]>(pp) g = Unsqueeze(t, a0) k = Add(h9, f) y = Add(k, g)",
         None),
        ("t = Transpose<perm = [0, 2, 1, 3]>(h9) y = Add(h9, t)", "a value is read in two arrangements"),
        ("y = Add(h9, v)", "tokens are in several arrangements"), ("f = Unsqueeze(v, a1) y = Add(h9, f)", "tokens are in several arrangements"),
    ],
)  # fmt: skip
def test_arrangements_of_two_axes_of_tokens(body, reason):
    value, tokens = value_of(body)
    region = ExpertSubgraph(value.graph, Sizes((*tokens, *tokens), 8))
    roles = ExpertAxes((SubAxis(1), SubAxis(2)), SubAxis(0))
    if reason is None:
        region.add(value, roles)
    else:
        with pytest.raises(Refused, match=f"^{reason}$"):
            region.add(value, roles)


@pytest.mark.parametrize(
    ("body", "reason", "weights"),
    [
        ("y = Gemm(x, a)", None, 12), ("y = Gemm(x, a, c)", None, 12), ("y = Gemm<transB = 1>(v, a)", None, 12),
        ("t = Transpose(x) y = Gemm<transA = 1>(t, a)", None, 12), ("y = Gemm<alpha = 2.0>(x, a)", "a Gemm scales its operands", 0),
        ("y = Gemm<beta = 0.5>(x, a, c)", "a Gemm scales its operands", 0),
        ("e = Add(v, v) k = MatMul(x, a) y = Add(k, e)", None, 12), ("k = MatMul(x, a) r = Relu(k) y = MatMul(r, w)", None, 21),
    ],
)  # fmt: skip
def test_nodes_of_one_expert(body, reason, weights):
    """The nodes inside are given, and no axis is that of experts."""
    value, tokens = value_of(body)
    region = ExpertSubgraph(value.graph, Sizes(tokens, 8), inside=list(value.graph or ()))
    roles = ExpertAxes((SubAxis(0),), None)
    if reason is None:
        region.add(value, roles)
    else:
        with pytest.raises(Refused, match=f"^{reason}$"):
            region.add(value, roles)
    assert region.weights == weights


@pytest.mark.parametrize(
    ("body", "operators", "leaves", "weights"),
    [
        ("k = MatMul(one, u) y = Add(k, b)", "MatMul Add", "u b", 96), ("k = MatMul(one, u) r = Relu(k) y = MatMul(r, d)", "MatMul Relu MatMul", "u d", 192),
        ("k = MatMul(one, u) y = MatMul(k, w)", "MatMul MatMul", "u", 96), ("n = Neg(b) y = MatMul(n, w)", "Neg MatMul", "b", 0),
        ("k = MatMul(one, u) y = Softmax<axis = 2>(k)", "MatMul Softmax", "u", 96), ("k = MatMul(one, u) y = Concat<axis = 2>(k, b)", "MatMul Concat", "u b", 96),
    ],
)  # fmt: skip
def test_nodes_of_one_token(body, operators, leaves, weights):
    """Nothing differs by token: what is no view of a weight is computed for the chosen experts."""
    value, _ = value_of(body)
    region = ExpertSubgraph(value.graph, Sizes((), 8))
    region.add(value, ExpertAxes((), SubAxis(0)))
    assert " ".join(node.op_type for node in region.steps) == operators
    assert " ".join(str(leaf.name) for leaf in region.leaves) == leaves
    assert region.weights == weights


@pytest.mark.parametrize(
    ("body", "data", "weight"),
    [
        ("y = MatMul(x, a)", (0, 1, 0), (1, 0, 1)), ("y = Gemm(x, a, c)", (0, 1, 0), (1, 0, 1)), ("y = Gemm<transB = 1>(v, a)", (0, 1, 0), (1, 1, 0)),
        ("t = Transpose(x) y = Gemm<transA = 1>(t, a)", (0, 0, 1), (1, 0, 1)),
    ],
)  # fmt: skip
def test_the_axes_of_a_product(body, data, weight):
    """The operand, the axis that it sums over, the axis of the result."""
    value, tokens = value_of(body)
    region = ExpertSubgraph(value.graph, Sizes(tokens, 8), inside=list(value.graph or ()))
    region.add(value, ExpertAxes((SubAxis(0),), None))
    (step,) = [region.steps[node] for node in region.steps if value in node.outputs]
    assert [dataclasses.astuple(one) for one in region.factors(step)] == [data, weight]
