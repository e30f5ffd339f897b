"""The names of a finished model."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.build.final_names import common_name, finish_names


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (["cell.ii.kernel", "cell.if_.kernel"], "cell.kernel"),
        (["norm.mean", "norm.var"], "norm"),
        (["a.kernel", "const_1"], "a.kernel"),
        (["a", "b"], "const"),
        ([], "const"),
    ],
)
def test_what_is_made_from_weights_has_their_common_name(weights, expected):
    assert common_name([ir.Value(name=name) for name in weights]) == expected


def test_derived_weights_get_the_names_of_weights_and_unnamed_values_those_of_nodes():
    text = """<ir_version: 10, opset_import: ["" : 23]>
    g (float[2] x) => (float[2] y) <float[2] w.squeeze_1 = {1, 2}, float[2] other = {1, 2}> {
      val_0 = Add(x, w.squeeze_1)
      y = Add(val_0, other)
    }"""
    model = ir.from_onnx_text(text.replace("w.squeeze_1", "w_squeeze_1"))
    model.graph.initializers["w_squeeze_1"].name = "w.squeeze_1"
    model.graph[0].name = "block/Add"
    finish_names(model, ["w"])
    assert set(model.graph.initializers) == {"w", "other"}
    assert [node.outputs[0].name for node in model.graph] == ["block/Add", "y"]


def test_no_weight_gets_the_name_of_an_input_of_a_body():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 23]>
    g (float[2] x, int64 n, bool more) => (float[2] y) <float[2] w_1 = {1, 2}> {
      y = Loop(n, more, x) <body = b (int64 i, bool c, float[2] w) => (bool d, float[2] z) {
        d = Identity(c)
        z = Add(w, w_1)
      }>
    }""")
    finish_names(model, ["w"])
    assert [*model.graph.initializers] == ["w_2"]
