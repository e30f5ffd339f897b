"""The values that make a value zero where they are, by operator."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes
from jax2onnx_fusions.experts._gate_factors import factors, gate_factor
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import dims_of

HEAD = """n = Constant<value = int64[3] {0, 1, 2}>() a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>()
    a2 = Constant<value = int64[1] {2}>() none = Constant<value = float {0}>() split = Constant<value = int64[4] {-1, 3, 2, 2}>()
    column = Constant<value = int64[2] {-1, 1}>() pairs = Constant<value = int64[2] {-1, 4}>() zeros = Constant<value = float[3,1] {0, 0, 0}>()
    one_hot = Equal(i, n) gates = Cast<to = 1>(one_hot) g = Unsqueeze(gates, a2) m = Mul(g, v) """
#: [tokens, experts, features].
ROLES = ExpertAxes((SubAxis(0),), SubAxis(1))


def made(body: str) -> tuple[ir.Value, Sizes]:
    """The value y, and the numbers of tokens and experts."""
    inputs = (
        "int64[B,1] i, float[B,3,4] v, float[B,3,4] w, float[B,3] dense, bool[B,3,1] mask, float[4,5] u, float[B,1,4] x"
    )
    text = f'<ir_version: 10, opset_import: ["" : 21, "other" : 1]> m ({inputs}) => (float y) {{ {HEAD} {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].ClearField("type")
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph
    return graph.outputs[0], Sizes((dims_of(graph.inputs[0]) or ())[:1], 3)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("y = Mul(v, w)", "v w"), ("y = Mul(v, x)", "v"), ("y = Mul(v, none)", "v"), ("y = Div(v, w)", "v"), ("y = MatMul(v, u)", "v"),
        ("y = Where(mask, v, none)", "mask v"), ("y = Where(mask, v, zeros)", "mask v"), ("y = Where(mask, none, v)", ""),
        ("y = Where(mask, v, w)", ""), ("y = Relu(v)", "v"), ("y = Reshape(v, split)", "v"), ("y = Neg(m)", "m g v gates one_hot"),
        ("y = Add(v, w)", ""), ("y = Sub(v, w)", ""), ("y = Exp(v)", ""), ("y = Max(v, w)", ""), ("y = Softmax<axis = 2>(v)", ""),
        ("t = Identity(v) y = other.Mul(t, w)", ""), ("y = Transpose<perm = [1, 0, 2]>(v)", "v"), ("t = Mul(v, v) y = Mul(t, t)", "t t v v"),
        ("y = Clip(v, , none)", ""),
    ],
)  # fmt: skip
def test_factors(body, names):
    value, _ = made(body)
    is_turned = "Transpose" in body
    roles = ExpertAxes((SubAxis(1),), SubAxis(0)) if is_turned else ROLES
    assert " ".join(str(one.name) for one, _ in factors(value, roles)) == names


def test_gates_are_found_where_they_have_an_axis_of_their_own():
    """r is [tokens · experts, 1], g is [tokens, experts, 1]."""
    value, sizes = made("r = Reshape(g, column) k = Reshape(v, pairs) y = Mul(r, k)")
    for one, columns in zip((value, *value.producer().inputs), (4, 1, 4), strict=True):
        one.shape = ir.Shape(["3*B", columns])
    roles = ExpertAxes((SubAxis(0, inner=size_of([3])),), SubAxis(0, outer=size_of(sizes.tokens)))
    found = gate_factor(value, roles, sizes)
    assert found is not None
    assert (found.value.name, found.axes) == ("g", (0, 1))


def test_a_node_that_is_met_twice_is_looked_at_once():
    squares = " ".join(f"t{i + 1} = Mul(t{i}, t{i})" for i in range(22))
    value, _ = made(f"t0 = Mul(v, w) {squares} y = Identity(t22)")
    assert sum(1 for _ in factors(value, ROLES)) == 1 + 2 * 23
