"""The fixtures for tests of passes refuse what a pass must not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass
from jax2onnx_testing.pass_fixtures import LimitedTarget, declined, expression, fused, limited, rewrite

__all__ = ["declined", "fused", "limited", "rewrite"]

Change = Callable[[ir.Node, GraphEditor], object]
BODY = "s = Abs(x) y = Exp(s)"


class _OfAbs(NodePass[bool]):
    """Changes what follows a node Abs as it is told."""

    operators = frozenset({"Abs"})

    def __init__(self, change: Change, reason: str = "") -> None:
        super().__init__()
        self.change, self.reason = change, reason

    def match(self, node, editor):
        return Declined(self.reason, node) if self.reason else True

    def rewrite(self, node, match, editor):
        self.change(node, editor)


def _becomes(op_type: str) -> Change:
    return lambda node, editor: editor.replace(node, editor.before(node).op(op_type, node.inputs[0]))


def _silent(node: ir.Node, editor: GraphEditor) -> None:
    node.op_type = "Neg"


def _widened(node: ir.Node, editor: GraphEditor) -> None:
    node.graph.outputs[0].shape = ir.Shape(["B", 5, "K"])


def _renamed(node: ir.Node, editor: GraphEditor) -> None:
    node.graph.outputs[0].name = "z"


def test_a_right_rewriting_is_shown(fused):
    assert fused(_OfAbs(lambda node, editor: None), BODY) == ["Abs", "Exp"]


@pytest.mark.parametrize("change", [_becomes("Relu"), _becomes("Neg"), _silent, _widened, _renamed])
def test_a_wrong_rewriting_fails(fused, change):
    with pytest.raises((AssertionError, onnx.checker.ValidationError)):
        fused(_OfAbs(change), BODY)


def _exp_of_abs(node: ir.Node, editor: GraphEditor) -> None:
    """Right for what the test gives, without a look at what reads the node."""
    editor.replace(node, editor.before(node).op("Max", node.inputs[0], editor.before(node).op("Neg", node.inputs[0])))


@pytest.mark.parametrize(
    "body", [BODY, "s = Abs(x) t = Neg(s) y = Exp(t)", "s = Abs(x) y = Add(s, s)", "s = Abs(x) y = Mul(s, x)"]
)
def test_a_right_rewriting_is_right_beside_all_operators(fused, body):
    assert "Abs" not in fused(_OfAbs(_exp_of_abs), body)


@pytest.mark.parametrize("body", ["s = Abs(x) y = Sigmoid(s)", "s = Abs(x) y = Max(s, s)", "s = Abs(x) y = Mul(s, s)"])
def test_what_is_right_for_one_reader_alone_fails(fused, body):
    """Twice the value and half of the result are right only for the very operator that is there."""

    def assumed(node: ir.Node, editor: GraphEditor) -> None:
        (reader,) = {use.node for use in node.outputs[0].uses()}
        if reader.op_type not in body:
            editor.replace(node, editor.before(node).op("Neg", node.inputs[0]))

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        fused(_OfAbs(assumed), body)


def test_an_operator_of_another_domain_that_is_taken_for_the_standard_one_fails(fused):
    class Forgetful(_OfAbs):
        def rewrite_graph(self, editor: GraphEditor) -> None:
            for node in list(editor.nodes()):
                if node.op_type == "Abs":
                    _exp_of_abs(node, editor)

    with pytest.raises(AssertionError, match="Abs of another domain was taken for the standard one"):
        fused(Forgetful(_exp_of_abs), "y = Abs(x)")


def test_the_operand_of_another_domain_that_is_taken_for_the_standard_one_fails(fused):
    """−|x| is the least of x and −x only for the standard Abs; one of the bodies has it in the other domain."""

    class Forgetful(_OfAbs):
        operators = frozenset({"Neg"})

        def match(self, node, editor):
            return node.inputs[0].producer().op_type == "Abs"

    def least(node: ir.Node, editor: GraphEditor) -> None:
        (x,) = node.inputs[0].producer().inputs
        editor.replace(node, editor.before(node).op("Min", x, editor.before(node).op("Neg", x)))

    def of_bodies() -> list[list[str]]:
        return [fused(Forgetful(least), f"{name} = Abs(x) y = Neg({name})") for name in "abcd"]

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        of_bodies()


@pytest.mark.parametrize(("tolerance", "fails"), [(1e-6, True), (1e-1, False)])
def test_a_rewriting_that_rounds_is_compared_to_the_tolerance(fused, tolerance, fails):
    def rounded(node: ir.Node, editor: GraphEditor) -> None:
        b = editor.before(node)
        editor.replace(node, b.op("Mul", b.op("Abs", node.inputs[0]), b.constant(np.float32(1.001))))

    if fails:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            fused(_OfAbs(rounded), BODY, tolerance=tolerance)
    else:
        assert fused(_OfAbs(rounded), BODY, tolerance=tolerance) == ["Abs", "Mul", "Exp"]


@pytest.mark.parametrize("infer", [True, False])
def test_the_types_of_values_are_inferred_if_it_is_asked_for(rewrite, infer):
    known: set[bool] = set()
    text = '<ir_version: 10, opset_import: ["" : 23]> main (float[B,5] x) => (float[B,5] y) { s = Abs(x) y = Exp(s) }'
    rewrite(_OfAbs(lambda node, editor: known.add(node.outputs[0].shape is not None)), text, infer=infer)
    assert known == {infer}


def test_a_pass_that_declines_gives_its_reason(declined):
    assert declined(_OfAbs(_silent, "it is an absolute value"), BODY) == ["it is an absolute value"]
    for change in (_becomes("Neg"), _silent):
        with pytest.raises(AssertionError):
            declined(_OfAbs(change), BODY)


def test_values_are_expressions():
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> main (float[2, 9] x, bool c) => (float[2, 4] a, float z) '
        "<float[1] one = {1}, float[9] nine = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[8] eight = {1, 2, 3, 4, 5, 6, 7, 8}> "
        "{ s = Add(x, nine) t = Clip(s, , one) k, a = Split<axis = 1, num_outputs = 2>(t) "
        "z = If(c) <then_branch = g () => (float p) { p = ReduceSum(eight) }, else_branch = h () => (float q) { q = ReduceSum(x) }> }"
    )
    a, z = map(expression, ir.from_onnx_text(text).graph.outputs)
    assert a == "Split{1, 2}(Clip(Add(x, const[9]), _, [1.0])).1"
    assert z == "If<ReduceSum([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])><ReduceSum(x)>(c)"


def test_the_class_of_limited_targets_is_a_fixture(limited):
    assert limited is LimitedTarget
    assert not limited("Exp").supports("Exp", np.dtype(np.float32), 20)


def test_a_limited_target_lacks_what_it_is_told():
    target = LimitedTarget(
        "Gelu", lost=[("Max", "nan")], dtypes=[np.float32], opset=22, avoided=[Form.SOFTPLUS],
        thresholds={Threshold.OPERATOR_CALL: 7},
    )  # fmt: skip
    f32: np.dtype[Any] = np.dtype(np.float32)
    f64: np.dtype[Any] = np.dtype(np.float64)
    asked = [("Gelu", f32, 22), ("Abs", f32, 22), ("Abs", f64, 22), ("Attention", f32, 26), ("Mish", f32, 22)]
    assert [target.supports(op_type, dtype, opset) for op_type, dtype, opset in asked] == [
        False,
        True,
        False,
        False,
        True,
    ]
    assert [target.guarantees(op_type, f32, "nan") for op_type in ("Max", "Min")] == [False, True]
    assert target.prefers(Form.SOFTPLUS, Form.SOFTPLUS_BY_FORMULA) is Form.SOFTPLUS_BY_FORMULA
    assert target.prefers(Form.SOFTPLUS_BY_FORMULA, Form.SOFTPLUS) is Form.SOFTPLUS_BY_FORMULA
    assert target.threshold(Threshold.OPERATOR_CALL) == 7
    assert LimitedTarget().supports("Gelu", f64, 26)
    assert LimitedTarget().threshold(Threshold.OPERATOR_CALL) != 7
