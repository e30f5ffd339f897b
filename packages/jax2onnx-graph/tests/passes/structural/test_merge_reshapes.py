from __future__ import annotations

import re

import pytest
from jax2onnx_graph.passes.structural.merge_reshapes import MergeReshapes
from onnx_ir import from_onnx_text

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
CONSTANTS = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] nine = {9}, int64[1] back = {-1},
   int64[1] low = {-99},   int64[6] nothing = {0,0,0,0,0,0}, int64[2] flat = {0, -1},
   int64[3] x_shape = {0, 4, 5}, int64[3] swapped = {0, 5, 4},
   int64[4] ones = {1,1,1,1}, int64[3] times = {1,1,1}>"""


@pytest.mark.parametrize(
    "operator",
    [
        "a = Reshape(x, x_shape)",
        "a = Identity(x)",
        "a = Expand(x, times)",
        "a = Tile(x, times)",
        "a = Transpose<perm = [0, 1, 2]>(x)",
        "a = Concat<axis = 0>(x)",
        "a = Max(x)",
        "a = Pad(x, nothing)",
        "a = Slice(x, zero, nine, one)",
    ],
)
def test_what_changes_nothing_vanishes(rewrite, operator):
    text = f"g (float[3,4,5] x) => (float[3,4,5] y) {CONSTANTS} {{ {operator} y = Relu(a) }}"
    assert rewrite(MergeReshapes(), HEAD + text) == ["Relu(x)"]


@pytest.mark.parametrize(
    "operator",
    ["a = Slice(x, back, low, one, back)", "a = Reshape(x, swapped)", "a = Relu(x)"],
)
def test_what_changes_values_or_shapes_stays(rewrite, operator):
    shape = "N,5,4" if "swapped" in operator else "N,4,5"
    text = f"g (float[N,4,5] x) => (float[{shape}] y) {CONSTANTS} {{ {operator} y = Relu(a) }}"
    (result,) = rewrite(MergeReshapes(), HEAD + text)
    assert operator[4:].split("(")[0] in result


@pytest.mark.parametrize(
    ("operators", "shape", "expected"),
    [
        ("a = Reshape(x, flat) b = Reshape(a, x_shape)", "N,4,5", "Relu(x)"),
        ("a = Reshape(x, flat) b = Reshape(a, swapped)", "N,5,4", "Relu(Reshape(x, [0, 5, 4]))"),
        ("a = Unsqueeze(x, one) b = Squeeze(a, one)", "N,4,5", "Relu(x)"),
        ("a = Unsqueeze(x, one) b = Unsqueeze(a, one)", "N,1,1,4,5", "Relu(Unsqueeze(x, [1, 2]))"),
        ("a = Unsqueeze(x, one) b = Squeeze(a, one) c = Reshape(b, flat) d = Unsqueeze(c, zero)", "1,N,20", None),
        ("a = Reshape(x, flat) b = Flatten(a)", "N,20", "Relu(Reshape(x, [0, -1]))"),
        ("a = Unsqueeze(x, zero) b = Transpose<perm = [1, 2, 3, 0]>(a)", "N,4,5,1", "Relu(Unsqueeze(x, [3]))"),
    ],
)
def test_chains_of_views_are_one_view(rewrite, operators, shape, expected):
    last = re.findall(r"(\w) = [A-Z]", operators)[-1]
    text = f"g (float[N,4,5] x) => (float[{shape}] y) {CONSTANTS} {{ {operators} y = Relu({last}) }}"
    expected = expected or "Relu(Reshape(x, [1, -1, 20]))"
    assert rewrite(MergeReshapes(), HEAD + text) == [expected]


def test_a_transpose_of_axes_of_size_one_is_a_view(rewrite):
    text = "g (float[N,1,1,3] x) => (float[N,3,1,1] y) { y = Transpose<perm = [0, 3, 1, 2]>(x) }"
    assert rewrite(MergeReshapes(), HEAD + text) == ["Reshape(x, [0, 3, 1, 1])"]


def test_an_output_keeps_its_name_when_its_node_vanishes(rewrite):
    text = f"g (float[N,4,5] x) => (float[N,4,5] y) {CONSTANTS} {{ a = Relu(x) y = Reshape(a, x_shape) }}"
    assert rewrite(MergeReshapes(), HEAD + text) == ["Relu(x)"]


def test_an_output_that_is_an_input_keeps_its_node(rewrite):
    text = f"g (float[N,4,5] x) => (float[N,4,5] y) {CONSTANTS} {{ y = Identity(x) }}"
    assert rewrite(MergeReshapes(), HEAD + text) == ["Identity(x)"]


@pytest.mark.parametrize(
    "operators",
    [
        "a = Reshape(x, flat) y = Reshape(a, x_shape)",
        "s = Shape(x) a = Reshape(x, back) y = Reshape(a, s)",
        "a = Unsqueeze(x, one) y = Squeeze(a, one)",
        "a = Unsqueeze(x, one) b = Flatten(a) y = Reshape(b, x_shape)",
        "y = Slice(x, zero, nine, one)",
        "a = Identity(x) y = Identity(a)",
    ],
)
def test_an_output_that_is_a_view_of_an_input_and_back_is_its_identity(rewrite, operators):
    n = 3 if "Slice" in operators else "N"
    text = f"g (float[{n},4,5] x) => (float[{n},4,5] y) {CONSTANTS} {{ {operators} }}"
    assert rewrite(MergeReshapes(), HEAD + text) == ["Identity(x)"]


def test_several_outputs_of_one_value_are_identities_of_it(rewrite):
    operators = "a = Reshape(x, flat) u = Reshape(a, x_shape) v = Identity(u) b = Neg(x) w = Identity(b) z = Reshape(w, x_shape)"
    outputs = ", ".join(f"float[N,4,5] {name}" for name in "uvwz")
    text = f"g (float[N,4,5] x) => ({outputs}) {CONSTANTS} {{ {operators} }}"
    assert rewrite(MergeReshapes(), HEAD + text) == ["Identity(x)", "Identity(x)", "Neg(x)", "Identity(Neg(x))"]


def test_an_output_that_others_read_is_an_identity_and_they_read_the_input(rewrite):
    text = f"""g (float[N,4,5] x) => (float[N,4,5] y, float[N,4,5] z) {CONSTANTS} {{
        a = Reshape(x, flat) y = Reshape(a, x_shape) z = Neg(y) }}"""
    assert rewrite(MergeReshapes(), HEAD + text) == ["Identity(x)", "Neg(x)"]


def test_labels_that_differ_are_not_equal(rewrite):
    text = "g (float[N,4] x, int64[2] s) => (float[M,K] y) { a = Reshape(x, s) y = Relu(a) }"
    model = from_onnx_text(HEAD + text)
    MergeReshapes()(model)
    assert [node.op_type for node in model.graph] == ["Reshape", "Relu"]
