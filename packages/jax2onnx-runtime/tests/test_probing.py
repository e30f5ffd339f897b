"""Sizes and integers to run a graph with, read from the graph."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_runtime.probing import critical_sizes, index_extents
from onnx_ir.passes.common import ShapeInferencePass


def model(inputs: str, body: str) -> ir.Model:
    text = f'<ir_version: 10, opset_import: ["" : 23]> main ({inputs}) => (y) {{ {body} }}'
    return ShapeInferencePass()(ir.from_onnx_text(text)).model


WINDOWS = {
    "pooling": ("float[N,2,T] x", "y = MaxPool<kernel_shape=[3]>(x)", {"T": [2, 3, 4]}),
    "dilations": ("float[N,2,T] x", "y = MaxPool<kernel_shape=[3], dilations=[2]>(x)", {"T": [4, 5, 6]}),
    "padding": ("float[N,2,T] x", "y = AveragePool<kernel_shape=[5], pads=[1,1]>(x)", {"T": [2, 3, 4]}),
    "convolution": ("float[N,2,T] x, float[4,2,5] w", "y = Conv(x, w)", {"T": [4, 5, 6]}),
    "windows of two axes": ("float[N,2,H,W] x", "y = MaxPool<kernel_shape=[3,2]>(x)", {"H": [2, 3, 4], "W": [1, 2, 3]}),
    "slice": ("float[T] x", "s = Constant<value=int64[1] {2}>() e = Constant<value=int64[1] {-3}>() y = Slice(x, s, e)",
              {"T": [1, 2, 3, 4]}),
    "the largest window": ("float[N,2,T] x", "y = MaxPool<kernel_shape=[64]>(x)", {"T": [63, 64, 65]}),
    "a larger one": ("float[N,2,T] x", "y = MaxPool<kernel_shape=[65]>(x)", {}),
    "a window of no size": ("float[N,2,T] x", "y = AveragePool<kernel_shape=[2], pads=[1,1]>(x)", {}),
    "nothing": ("float[T] x", "y = Relu(x)", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_sizes_at_which_windows_and_slices_just_fit(name):
    inputs, body, expected = WINDOWS[name]
    assert critical_sizes(model(inputs, body)) == expected


def test_numbers_in_labels():
    found = model("float[T] x", "y = Relu(x)")
    found.graph.outputs[0].shape = ir.Shape(["floordiv(T - 4, 2) + T2"])
    assert critical_sizes(found) == {"T": [1, 3, 2, 4, 5], "T2": [1, 3, 2, 4, 5]}


INDICES = {
    "gather": ("float[7,N] x, int64[3] i", "y = Gather<axis=1>(x, i)", {"i": ["N"]}),
    "by way of casts and views": (
        "float[7,N] x, int32[3,1] i, int64[1] s",
        "j = Cast<to=7>(i) k = Reshape(j, s) y = Gather<axis=0>(x, k)",
        {"i": [7]},
    ),
    "negative ones wrapped": (
        "float[7] x, int64[3] i, int64 n, bool[3] c", "j = Add(i, n) k = Where(c, j, i) y = Gather(x, k)", {"i": [7]},
    ),
    "two tables": ("float[7] x, float[5] z, int64[3] i", "a = Gather(x, i) b = Gather(z, i) y = Add(a, b)", {"i": [7, 5]}),
    "points": ("float[7,5,4] x, int64[3,2] i", "y = GatherND(x, i)", {"i": [7, 5]}),
    "scattered": ("float[7] x, int64[3] i, float[3] u", "y = ScatterElements(x, i, u)", {"i": [7]}),
    "one-hot": (
        "int64[3] i, float[2] v", "d = Constant<value=int64 {9}>() y = OneHot(i, d, v)", {"i": [9]},
    ),
    "indices of indices": ("int64[4] x, int64[3] i, float[6] z", "j = Gather(x, i) y = Gather(z, j)", {"x": [6], "i": [4]}),
    "numbers": ("int64[3] i, int64[3] j", "y = Add(i, j)", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_inputs_that_are_indices(name):
    inputs, body, expected = INDICES[name]
    assert index_extents(model(inputs, body)) == expected


TWO = "two = Constant<value = int64 {2}>()"
SLICE = "s = Unsqueeze(p, zero) e = Add(s, ends) y = Slice(x, s, e, zero)"
POSITIONS = {
    "plus others": ("a = Add(i, r) y = Gather(x, a)", {"i": [8], "r": [8]}),
    "plus others twice": ("a = Add(i, r) b = Add(r, a) y = Gather(x, b)", {"i": [8], "r": [8]}),
    "less others": ("a = Sub(i, r) y = Gather(x, a)", {}),
    "plus others by another's operator": ("a = other.Add(i, r) y = Gather(x, a)", {}),
    "plus a number": (f"{TWO} a = Add(i, two) y = Gather(x, a)", {"i": [6]}),
    "a number and others plus": (f"{TWO} a = Add(two, i) b = Add(a, r) y = Gather(x, b)", {"i": [6], "r": [8]}),
    "plus a number twice": (f"{TWO} a = Add(two, i) b = Add(a, two) y = Gather(x, b)", {"i": [4]}),
    "plus the largest of several": ("t = Constant<value = int64[3] {1, 5, 0}>() a = Add(i, t) y = Gather(x, a)", {"i": [3]}),
    "plus and without": (f"{TWO} a = Add(i, two) b = Gather(x, i) c = Gather(x, a) y = Add(b, c)", {"i": [8, 6]}),
    "plus as many as there are": ("n = Constant<value = int64 {8}>() a = Add(i, n) y = Gather(x, a)", {}),
    "plus one fewer": ("n = Constant<value = int64 {7}>() a = Add(i, n) y = Gather(x, a)", {"i": [1]}),
    "negative ones wrapped": (
        "n = Constant<value = int64 {8}>() o = Constant<value = int64 {0}>() c = Less(i, o) a = Add(i, n) b = Where(c, a, i) y = Gather(x, b)",
        {"i": [8]},
    ),
    "plus a number, wrapped": (
        (f"{TWO} n = Constant<value = int64 {{8}}>() o = Constant<value = int64 {{0}}>() j = Add(i, two) c = Less(j, o) a = Add(j, n) "
        "b = Where(c, a, j) y = Gather(x, b)"),
        {"i": [6]},
    ),
    "plus a number in a table of a symbol": (f"{TWO} a = Add(i, two) y = Gather(w, a)", {}),
    "the beginning of a slice": (f"ends = Shape(r) {SLICE}", {"p": [8]}),
    "the beginning of three": (f"ends = Constant<value = int64[1] {{3}}>() {SLICE}", {"p": [6]}),
    "the end of a slice": ("e = Unsqueeze(p, zero) y = Slice(x, zero, e, zero)", {}),
    "another's slice": ("s = Unsqueeze(p, zero) y = other.Slice(x, s, s, zero)", {}),
    "the beginning with a step": ("s = Unsqueeze(p, zero) y = Slice(x, s, s, zero, step)", {}),
    "the beginning along the last of two axes": ("s = Unsqueeze(p, zero) e = Add(s, zero) y = Slice(z, s, e, minus)", {"p": [5]}),
    "the beginnings along two axes": (
        "s = Unsqueeze(p, zero) t = Unsqueeze(q, zero) b = Concat<axis = 0>(t, s) e = Concat<axis = 0>(t, s) y = Slice(z, b, e, both)",
        {"p": [5], "q": [7]},
    ),
    "compared with all numbers": ("n = Constant<value = int64[3] {0, 1, 2}>() y = Equal(i, n)", {"i": [3]}),
    "all numbers compared with one plus": (f"{TWO} n = Constant<value = int64[1,3] {{0, 1, 2}}>() a = Add(i, two) y = Equal(n, a)", {"i": [1]}),
    "compared with other numbers": ("n = Constant<value = int64[3] {0, 1, 3}>() y = Equal(i, n)", {}),
    "compared with zero": ("y = Equal(i, zero)", {}),
    "compared by another's operator": ("n = Constant<value = int64[3] {0, 1, 2}>() y = other.Equal(i, n)", {}),
    "less than some": ("n = Constant<value = int64[3] {0, 1, 2}>() y = Less(i, n)", {}),
    "the beginnings of both axes at once": ("y = Slice(z, both_of, both_of, both)", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIONS)
def test_sums_beginnings_of_slices_and_what_is_compared_are_indices_where_that_is_asked_for(name):
    body, expected = POSITIONS[name]
    constants = (
        "zero = Constant<value = int64[1] {0}>() minus = Constant<value = int64[1] {-1}>() both = Constant<value = int64[2] {0, 1}>() "
        "step = Constant<value = int64[1] {1}>()"
    )
    inputs = "int64[3] i, int64[3] r, int64 p, int64 q, int64[2] both_of, float[8] x, float[N] w, float[7,5] z"
    given = model(inputs, f"{constants} {body}")
    if "of three" in name:
        given.graph.outputs[0].shape = ir.Shape([3])
    assert index_extents(given, adding=True) == expected
    plain = index_extents(given)
    assert plain == ({"i": [8]} if "without" in name or name == "negative ones wrapped" else {})


def test_indices_inside_a_subgraph():
    body = (
        "y = Loop(m, c, i) <body = b (int64 k, bool c_in, int64[3] v) => (bool c_out, int64[3] v_out) "
        "{ c_out = Identity(c_in) v_out = Gather(x, v) }>"
    )
    assert index_extents(model("int64 m, bool c, int64[3] i, int64[8] x", body)) == {"i": [8]}
