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


def test_equal_nodes_behind_one_with_other_attributes_become_one():
    nodes = "a = other.F<a = 1>(x) b = other.F<a = 2>(x) c = other.F<a = 2>(x) d = other.F<a = 1>(x)"
    text = f"g (float[3] x) => (float[3] y) {{ {nodes} y = Sum(a, b, c, d) }}"
    assert _operators(text) == (True, ["F", "F", "Sum"])


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
    assert [[value.name for value in node.inputs] for node in model.graph] == [["x"], ["x"]]


LOOP = """g (int64 n, float[3] x) => (float[3] y) {{
    c = Constant<value = bool {{1}}>()
    {before}
    y = Loop(n, c, x)<body = b (int64 i, bool d, float[3] s) => (bool e, float[3] t) {{ e = Identity(d) {body} }}>
}}"""


def _body(text):
    model = ir.from_onnx_text(HEAD + text)
    EliminateCommonSubexpressions()(model)
    body = next(node for node in model.graph if node.op_type == "Loop").attributes["body"].as_graph()
    return [node.op_type for node in body], [output.name for output in body.outputs]


def test_equal_nodes_of_a_body_become_one():
    text = LOOP.format(before="", body="a = Sin(s) b = Sin(s) t = Add(a, b)")
    assert _body(text)[0] == ["Identity", "Sin", "Add"]


def test_a_node_of_a_body_gives_way_to_one_in_front_of_the_loop():
    text = LOOP.format(before="z = Sin(x)", body="a = Sin(x) t = Add(a, s)")
    assert _body(text)[0] == ["Identity", "Add"]


def test_an_output_of_a_body_that_is_computed_outside_goes_through_identity():
    assert _body(LOOP.format(before="z = Sin(x)", body="t = Sin(x)")) == (["Identity", "Identity"], ["e", "t"])


def test_nodes_of_two_branches_stay():
    text = """g (bool c, float[3] x) => (float[3] y) {
        y = If(c)<then_branch = a () => (float[3] p) { q = Sin(x) p = Neg(q) },
                  else_branch = b () => (float[3] r) { s = Sin(x) r = Abs(s) }>
    }"""
    model = ir.from_onnx_text(HEAD + text)
    assert not EliminateCommonSubexpressions()(model).modified
