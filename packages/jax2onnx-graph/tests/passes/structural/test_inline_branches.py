from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.inline_branches import InlineBranches

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
IF = """g (bool k, float[3] x) => (float[3] y, float[3] z) {{
    c = Constant<value = bool {{{condition}}}>()
    y, z = If({operand})<then_branch = a () => (float[3] p, float[3] q) {{ p = Sin(x) q = Neg(p) }},
                         else_branch = b () => (float[3] r, float[3] s) {{ r = Abs(x) s = Identity(x) }}>
}}"""


def _operators(condition=1, operand="c"):
    model = ir.from_onnx_text(HEAD + IF.format(condition=condition, operand=operand))
    InlineBranches()(model)
    onnx.checker.check_model(ir.to_proto(model))
    assert [output.name for output in model.graph.outputs] == ["y", "z"]
    return [node.op_type for node in model.graph][1:]


@pytest.mark.parametrize(("condition", "taken"), [(1, ["Sin", "Neg"]), (0, ["Abs", "Identity"])])
def test_a_known_condition_leaves_its_branch(condition, taken):
    assert _operators(condition) == taken


def test_an_unknown_condition_stays():
    assert _operators(operand="k") == ["If"]


def test_a_branch_may_hand_on_an_outer_value():
    text = """g (float[3] x) => (float[3] y) {
        c = Constant<value = bool {1}>()
        w = Sin(x)
        y = If(c)<then_branch = a () => (float[3] p) { p = Identity(w) }, else_branch = b () => (float[3] r) { r = Abs(x) }>
    }"""
    model = ir.from_onnx_text(HEAD + text)
    branch = next(n for n in model.graph if n.op_type == "If").attributes["then_branch"].as_graph()
    identity = next(iter(branch))
    outer = identity.inputs[0]
    assert outer is not None
    branch.outputs[0] = outer
    branch.remove(identity, safe=True)
    outer.type, outer.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([3])
    InlineBranches()(model)
    onnx.checker.check_model(ir.to_proto(model))
    assert [node.op_type for node in model.graph] == ["Constant", "Sin"]
