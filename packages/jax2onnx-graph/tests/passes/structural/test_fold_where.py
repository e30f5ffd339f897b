from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.fold_where import FoldWhere

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("bool c = {1}", "Neg(Abs(x))"),
        ("bool c = {0}", "Neg(Exp(x))"),
        ("bool[3] c = {1, 1, 1}", "Neg(Abs(x))"),
        ("bool[1, 1] c = {0}", "Neg(Exp(x))"),
        ("bool[3] c = {1, 0, 1}", "Neg(Where([True, False, True], Abs(x), Exp(x)))"),
    ],
)
def test_a_constant_condition_chooses(rewrite, condition, expected):
    rank = "1,3" if "1, 1" in condition else "3"
    text = f"g (float[{rank}] x) => (float[{rank}] y) <{condition}> {{ a = Abs(x) b = Exp(x) w = Where(c, a, b) y = Neg(w) }}"
    assert rewrite(FoldWhere(), HEAD + text) == [expected]


def test_an_operand_that_broadcasts_stays(rewrite):
    text = "g (float[3] x) => (float[3] y) <bool c = {1}, float[1] one = {1}> { w = Where(c, one, x) y = Neg(w) }"
    assert rewrite(FoldWhere(), HEAD + text) == ["Neg(Where(True, [1.0], x))"]
