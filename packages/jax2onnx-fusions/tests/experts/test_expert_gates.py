"""Gates that are one column of an array of gates, however the column is taken, and their look-alikes."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._expert_gates import ExpertGate, expert_gate
from jax2onnx_fusions.experts._sparsity import Sparsity, Validity

HEAD = """n = Constant<value = int64[4] {0, 1, 2, 3}>() e = Equal(i, n) g = Cast<to = 1>(e)
    one = Constant<value = int64 {1}>() last = Constant<value = int64 {-1}>() two = Constant<value = int64[2] {1, 2}>()
    a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>() a2 = Constant<value = int64[1] {2}>()
    a3 = Constant<value = int64[1] {3}>() s = Constant<value = int64[3] {2, 1, 1}>()
    first = Constant<value = int64[1] {-4}>() before = Constant<value = int64[1] {-10}>() beyond = Constant<value = int64[1] {9}>()
    back = Constant<value = int64[1] {-1}>() both = Constant<value = int64[2] {0, 1}>() ends = Constant<value = int64[2] {1, 2}>()
    none = Constant<value = float {0}>() three = Constant<value = int64 {3}>() numbers = Constant<value = int64[2] {0, 3}>()
    half = Constant<value = float {0.5}>() pair = Constant<value = int64[2] {2, 3}>() column = Gather<axis = 1>(g, a1)
    is_one = Cast<to = 9>(column) is_pair = Equal(q, three) """


def gate_of(body: str) -> ExpertGate | None:
    """The gate y."""
    inputs = "int64[B,1] i, int64[6,2] q, int64 k, int64[1] ks, float[B,4] x, float[6,1] v, float[B,1] w, bool[B,1] mask, float[2,B,2] r"
    text = f'<ir_version: 10, opset_import: ["" : 21]> m ({inputs}) => (float y) {{ {HEAD} {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].ClearField("type")
    return expert_gate(ir.from_proto(onnx.shape_inference.infer_shapes(proto, strict_mode=True)).graph.outputs[0])


@pytest.mark.parametrize(
    ("body", "axis", "number"),
    [
        ("y = Gather<axis = 1>(g, one)", 1, 1), ("y = Gather<axis = -1>(g, last)", 1, 3), ("y = Gather<axis = 1>(g, a0)", 1, 0),
        ("y = Slice(g, a1, a2, a1)", 1, 1), ("y = Slice(g, first, a1, a1)", 1, 0), ("y = Slice(g, a3, beyond, a1)", 1, 3),
        ("y, b, c, f = Split<axis = 1, num_outputs = 4>(g)", 1, 0), ("b, c, y, f = Split<axis = 1, num_outputs = 4>(g)", 1, 2),
        ("t = Gather<axis = 1>(g, one) y = Unsqueeze(t, a1)", 1, 1),
        ("y = Equal(i, three)", None, 3), ("y = Equal(one, i)", None, 1),
        ("y = Where(is_one, w, none)", 1, 1), ("y = Where(mask, column, none)", 1, 1),
        ("y = And(mask, is_one)", 1, 1), ("y = Mul(w, column)", 1, 1), ("y = Mul(column, w)", 1, 1),
        ("c = Cast<to = 1>(is_pair) y = ReduceSum<keepdims = 0>(c, one)", None, 3),
        ("c = Cast<to = 1>(is_pair) y = ReduceMax(c, a1)", None, 3),
    ],
)  # fmt: skip
def test_a_column_is_a_gate(body, axis, number):
    gate = gate_of(body)
    assert gate is not None
    assert (gate.axis, gate.number) == (axis, number)


@pytest.mark.parametrize(
    "body",
    [
        "y = Gather<axis = 1>(g, two)", "y = Gather<axis = 1>(g, k)", "y = Gather<axis = 1>(x, one)", "y = Gather(g, one)",
        "y = Slice(g, a1, a3, a1)", "y = Slice(g, before, a1, a1)", "y = Slice(g, beyond, a2, a1, back)", "y = Slice(g, ks, a2, a1)",
        "y = Slice(g, a1, a2, ks)", "y = Slice(g, a0, a1, a0)", "y = Slice(g, both, ends, both)", "y = Slice(g, a1, ks, a1)",
        "y, b = Split<axis = 1, num_outputs = 2>(g)", "b, y, c = Split<axis = 1>(g, s)", "y = Squeeze(x)",
        "y = Equal(i, k)", "y = Equal(w, half)", "y = Equal(q, numbers)", "y = Add(column, w)", "y = Or(mask, is_one)",
        "y = Where(mask, column, w)", "y = Where(mask, column, half)", "y = Where(mask, none, column)",
        "c = Cast<to = 1>(is_pair) y = Reshape(c, pair)", "d = Equal(i, three) c = Cast<to = 1>(d) y = ReduceSum<keepdims = 0>(c, a0)",
        "c = Cast<to = 1>(is_pair) y = ReduceSum<keepdims = 0>(c, ks)", "c = Cast<to = 1>(is_pair) y = ReduceMin(c, a1)",
        "c = Cast<to = 1>(is_pair) y = ReduceMean(c, a1)",
    ],
)  # fmt: skip
def test_what_differs_in_one_thing_is_no_gate(body):
    assert gate_of(body) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Identity(column)", Sparsity(1)), ("y = Where(mask, column, none)", Sparsity(1)), ("y = And(mask, is_one)", Sparsity(1)),
        ("y = Mul(column, w)", Sparsity(1, Validity.IF_FINITE)),
        ("c = Cast<to = 7>(column) f = Cast<to = 7>(w) y = Mul(f, c)", Sparsity(1)),
        ("c = Cast<to = 1>(is_pair) y = ReduceSum<keepdims = 0>(c, a1)", Sparsity(2)),
        ("c = Cast<to = 1>(is_pair) m = Mul(c, v) y = ReduceMax<keepdims = 0>(m, a1)", Sparsity(2, Validity.IF_FINITE)),
    ],
)  # fmt: skip
def test_a_gate_has_the_bound_of_its_source(body, expected):
    gate = gate_of(body)
    assert gate is not None
    assert gate.sparsity == expected


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("y = Identity(column)", [0]), ("y = Transpose<perm = [1, 0]>(column)", None), ("y = Unsqueeze(column, a0)", [1]),
        ("y = Identity(is_pair)", [0, 1]), ("y = ReduceSum<keepdims = 0>(c, a0)", [None, 0]), ("y = ReduceSum<keepdims = 0>(c, a1)", [0, None]),
        ("z = ReduceSum<keepdims = 0>(c, a0) y = Neg(z)", None), ("z = ReduceSum<keepdims = 0>(c, a0) y = Identity(z)", [None, 0]),
    ],
)  # fmt: skip
def test_a_gate_knows_the_rows_of_its_source(body, rows):
    gate = gate_of("c = Cast<to = 1>(is_pair) " + body)
    assert (gate and [None if one is None else one.axis for one in gate.rows]) == rows


@pytest.mark.parametrize(("count", "is_found"), [(15, True), (16, False)])
def test_a_gate_is_looked_for_behind_a_number_of_nodes(count, is_found):
    chain = " ".join(f"t{i + 1} = Identity(t{i})" for i in range(count))
    assert (gate_of(f"t0 = Equal(i, three) {chain} y = Identity(t{count - 1})") is not None) is is_found
