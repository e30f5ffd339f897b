from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions

HEAD = '<ir_version: 10, opset_import: ["" : 20, "other" : 1]>\n'


def _operators(text):
    model = ir.from_onnx_text(HEAD + text)
    result = EliminateCommonSubexpressions()(model)
    return result.modified, [node.op_type for node in model.graph]


def test_equal_nodes_become_one():
    text = "g (float[3] x) => (float[3] y) { a = Sin(x) b = Sin(x) c = Neg(a) d = Neg(b) y = Add(c, d) }"
    assert _operators(text) == (True, ["Sin", "Neg", "Add"])


@pytest.mark.parametrize(
    ("first", "second"), [("a = 0.0", "a = -0.0"), ("a = 1", "a = 1.0"), ("a = 1", "b = 1"), ("a = [1.0]", "a = [1]")]
)
def test_nodes_of_different_attributes_stay(first, second):
    text = f"g (float[3] x) => (float[3] y) {{ b = other.F<{first}>(x) c = other.F<{second}>(x) y = Add(b, c) }}"
    assert _operators(text) == (False, ["F", "F", "Add"])


def test_random_numbers_and_large_tensors_stay():
    text = "g () => (float[3] y) { a = RandomNormal<shape = [3]>() b = RandomNormal<shape = [3]>() y = Add(a, b) }"
    assert _operators(text) == (False, ["RandomNormal", "RandomNormal", "Add"])
    large = "Constant<value = float[11] {1,2,3,4,5,6,7,8,9,10,11}>()"
    assert _operators(f"g () => (float[11] y) {{ a = {large} b = {large} y = Add(a, b) }}")[0] is False


def test_outputs_keep_their_names():
    model = ir.from_onnx_text(HEAD + "g (float[3] x) => (float[3] y, float[3] z) { a = Sin(x) y = Sin(x) z = Sin(x) }")
    EliminateCommonSubexpressions()(model)
    assert [output.name for output in model.graph.outputs] == ["y", "z"]
    assert [node.op_type for node in model.graph] == ["Sin", "Identity"]


def test_dropout_may_draw_random_numbers_and_stays():
    text = "g (float[3] x) => (float[3] y) { a = Dropout(x) b = Dropout(x) y = Add(a, b) }"
    assert _operators(text) == (False, ["Dropout", "Dropout", "Add"])


def test_two_equal_inputs_of_a_model_stay_two():
    model = ir.from_onnx_text(HEAD + "g (float[3] x) => (float[3] y, float[3] z) { y = Identity(x) z = Identity(x) }")
    EliminateCommonSubexpressions()(model)
    assert [output.name for output in model.graph.outputs] == ["y", "z"]
    assert [[value.name for value in node.inputs] for node in model.graph] == [["x"], ["y"]]
