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


@pytest.mark.parametrize(
    ("body", "adding", "expected"),
    [
        ("a = Add(i, r) y = Gather(x, a)", True, {"i": [8], "r": [8]}),
        ("a = Add(i, r) y = Gather(x, a)", False, {}),
        ("a = Add(i, r) b = Add(r, a) y = Gather(x, b)", True, {"i": [8], "r": [8]}),
        ("a = Sub(i, r) y = Gather(x, a)", True, {}),
        ("a = other.Add(i, r) y = Gather(x, a)", True, {}),
    ],
)
def test_numbers_that_others_are_added_to_are_indices_where_that_is_asked_for(body, adding, expected):
    assert index_extents(model("int64[3] i, int64[3] r, float[8] x", body), adding=adding) == expected


def test_indices_inside_a_subgraph():
    body = (
        "y = Loop(m, c, i) <body = b (int64 k, bool c_in, int64[3] v) => (bool c_out, int64[3] v_out) "
        "{ c_out = Identity(c_in) v_out = Gather(x, v) }>"
    )
    assert index_extents(model("int64 m, bool c, int64[3] i, int64[8] x", body)) == {"i": [8]}
