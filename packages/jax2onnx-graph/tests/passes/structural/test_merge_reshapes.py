from __future__ import annotations

import re

import pytest
from jax2onnx_graph.passes.structural.merge_reshapes import MergeReshapes, view_of
from onnx_ir import Shape, from_onnx_text

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
    "operator",
    [
        "a = Transpose(x)",
        "a = Transpose<perm = [1, 0]>(x)",
        "a = Pad(x, shift)",
        "a = Pad(x, p)",
        'a = Pad<mode = "reflect">(x, shift)',
        "a = Slice(x, last, before, rows, back)",
        "a = Slice(x, last, before, rows, k)",
        "a = Concat<axis = 0>(x, e)",
        "a = Max(x, x, x)",
    ],
)
def test_what_moves_values_within_the_same_shape_stays(rewrite, operator):
    """Of a square, and with operands that are known at run time only."""
    text = f"""g (float[4,4] x, int64[4] p, int64[1] k, float[0,4] e) => (float[A,B] y)
      <int64[4] shift = {{1, 0, -1, 0}}, int64[1] last = {{3}}, int64[1] before = {{-9}}, int64[1] rows = {{0}}, int64[1] back = {{-1}}> {{
      {operator} y = Relu(a) }}"""
    model = from_onnx_text(HEAD + text)
    model.graph.node(0).outputs[0].shape = Shape([4, 4])
    assert not MergeReshapes()(model).modified


@pytest.mark.parametrize(
    ("source", "target", "view"),
    [
        ("2,3", "2,1,3", ("Unsqueeze", [1])),
        ("4", "1,4,1", ("Unsqueeze", [0, 2])),
        ("1,N,1", "N", ("Squeeze", [0, 2])),
        ("1,4", "4,1", ("Reshape", [4, 1])),
        ("2,3", "2,3", ("Reshape", [2, 3])),
        ("N,3,4", "N,12", ("Reshape", [0, 12])),
        ("3,N,4", "N,12", ("Reshape", [-1, 12])),
        ("N,2", "2,N", ("Reshape", [2, -1])),
        ("4,N", "2,2,N", ("Reshape", [2, 2, -1])),
        ("N,M,2", "N,2*M", ("Reshape", [0, -1])),
        ("N,M,2,3", "N,M,6", ("Reshape", [0, 0, 6])),
        ("N,M,4", "M,N,4", None),  # two sizes are not known
        ("N - 1,M,2", "N - 1,2*M", None),  # a copied size may be 0, which leaves the other open
        ("N - 1,2,3", "N - 1,6", ("Reshape", [0, 6])),
        ("0,4", "4,0", None),
        ("0,4", "0,2,2", None),
    ],
)
def test_views_by_their_dimensions(source, target, view):
    dims = [tuple(Shape([int(dim) if dim.isdigit() else dim for dim in text.split(",")])) for text in (source, target)]
    assert view_of(*dims) == view


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
