"""NaN that kernels lose is put behind them, where it may be and nowhere else."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.repairs import Loss, RepairsPass, with_nan
from jax2onnx_graph.targets import Target
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

LOSS = Loss("nan", with_nan)


def repaired(target: Target, body: str, head: str = "float[N] x, float[N] z", loss: Loss = LOSS) -> str:
    """The operators of the model after the repair of Max, in order; its output keeps its name and type."""
    text = f'<ir_version: 10, opset_import: ["" : 23, "other" : 1]> g ({head}) => (float[N] y) {{ {body} }}'
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    result = RepairsPass(target, {"Max": loss})(model)
    operators = " ".join(node.op_type for node in model.graph if node.op_type != "Constant")
    assert result.modified == ("IsNaN" in operators)
    assert model.graph.outputs[0].name == "y"
    return operators


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Max(x, z)", "Max IsNaN Where IsNaN Where"),
        ("c = Constant<value = float[1] {1}>() y = Max(x, c)", "Max IsNaN Where"),
        ("c = Constant<value = float[1] {nan}>() y = Max(c, x)", "Max IsNaN Where IsNaN Where"),
        ("t = Max(x) y = Neg(t)", "Max IsNaN Where Neg"),
        ("y = Min(x, z)", "Min"),
        ("y = other.Max(x, z)", "Max"),
    ],
)
def test_nan_of_operands_that_may_have_one_is_restored(limited, body, expected):
    assert repaired(limited(lost={("Max", "nan")}), body) == expected


def test_what_the_target_keeps_needs_no_repair(limited):
    assert repaired(limited(lost={("Max", "empty")}), "y = Max(x, z)") == "Max"


@pytest.mark.parametrize(("result", "expected"), [(ir.DataType.FLOAT, "Max IsNaN Where"), (ir.DataType.FLOAT16, "Max")])
def test_a_loss_may_concern_results_of_one_type(limited, result, expected):
    assert (
        repaired(limited(lost={("Max", "nan")}), "y = Max(x)", "float[N] x", Loss("nan", with_nan, result)) == expected
    )


def test_operands_without_a_type_are_left_alone(limited):
    target = limited(lost={("Max", "nan")})
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Max(x) }')
    model.graph.inputs[0].type = None
    assert not RepairsPass(target, {"Max": Loss("nan", with_nan)})(model).modified


def test_readers_read_the_repaired_value_and_nan_is_in_its_place(limited):
    text = '<ir_version: 10, opset_import: ["" : 23]> g (float[N] x, float[N] z) => (float[N] y) { y = Max(x, z) }'
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    RepairsPass(limited(lost={("Max", "nan")}), {"Max": Loss("nan", with_nan)})(model)
    feeds = {"x": np.array([1, np.nan, 3], np.float32), "z": np.array([np.nan, 5, 2], np.float32)}
    [y] = ReferenceEvaluator(ir.to_proto(model)).run(None, feeds)
    np.testing.assert_array_equal(y, np.array([np.nan, np.nan, 3], np.float32))
