from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


def _operators(text):
    model = ir.from_onnx_text(HEAD + text)
    result = RemoveDeadNodes()(model)
    return result.modified, [node.op_type for node in model.graph.all_nodes()]


def test_chains_that_nobody_reads_are_removed():
    text = "g (float[3] x) => (float[3] y) { a = Sin(x) b = Cos(a) y = Neg(x) c = Tan(a) }"
    assert _operators(text) == (True, ["Neg"])


def test_a_live_graph_is_not_modified():
    assert _operators("g (float[3] x) => (float[3] y) { a = Sin(x) y = Neg(a) }") == (False, ["Sin", "Neg"])


def test_a_node_with_one_output_that_is_read_stays():
    text = "g (float[4] x) => (float[2] y) { a, b = Split<num_outputs = 2>(x) y = Neg(b) }"
    assert _operators(text) == (False, ["Split", "Neg"])


def test_dead_nodes_of_a_body_free_what_they_captured():
    text = """g (bool p, float[3] x) => (float[3] y) {
      a = Sin(x)
      b = Cos(x)
      y = If (p) <then_branch = t () => (float[3] u) { d = Neg(a) u = Tan(b) }, else_branch = e () => (float[3] v) { v = Abs(x) }>
    }"""
    assert _operators(text) == (True, ["Cos", "If", "Tan", "Abs"])


def test_a_dead_node_frees_what_its_bodies_captured():
    text = """g (bool p, float[3] x) => (float[3] y) {
      a = Sin(x)
      c = If (p) <then_branch = t () => (float[3] u) { u = Neg(a) }, else_branch = e () => (float[3] v) { v = Abs(a) }>
      y = Neg(x)
    }"""
    assert _operators(text) == (True, ["Neg"])
