"""Double constants next to the neutral one: the model, and what ONNX Runtime makes of it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_onnxruntime._neutral_constants import NeutralConstantsPass
from jax2onnx_onnxruntime.loading import load


def _model(op_type: str, number: float, *, first: bool = False) -> ir.Model:
    operands = "c, a" if first else "a, c"
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    agraph (double[3] x) => (double[3] y) <double c = {{{number!r}}}> {{
        a = Abs(x)
        b = {op_type}({operands})
        y = Neg(b)
    }}"""
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))


CASES = {
    ("Mul", 1 + 1e-9): lambda x, c: x * c,
    ("Div", 1 + 1e-9): lambda x, c: x / c,
    ("Add", 1e-60): lambda x, c: x + c,
    ("Sub", 1e-60): lambda x, c: x - c,
}


@pytest.mark.parametrize(("op_type", "number"), CASES)
def test_the_runtime_computes_what_the_model_says(op_type, number):
    model = NeutralConstantsPass()(_model(op_type, number)).model
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    x = np.array([1.0, 2.5, 0.0])
    (result,) = load(model)({"x": x})
    np.testing.assert_array_equal(result, -CASES[op_type, number](x, number))


def test_the_constant_may_come_first():
    model = NeutralConstantsPass()(_model("Mul", 1 + 1e-9, first=True)).model
    assert [node.op_type for node in model.graph] == ["Abs", "Mul", "Mul", "Neg"]


@pytest.mark.parametrize(("op_type", "number"), [("Mul", 1.0), ("Mul", 2.0), ("Add", 0.0), ("Add", 1e-9), ("Div", 1.5)])
def test_other_constants_stay(op_type, number):
    assert not NeutralConstantsPass()(_model(op_type, number)).modified
