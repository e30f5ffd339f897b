"""Models of opset 18 with the operators of opset 17."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.legalise.opset_17 import Opset17Pass
from onnx.reference import ReferenceEvaluator

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def model_of(body: str) -> ir.Model:
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[2,3,4] x) => (y) {{ {body} }}'
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))


def value(model: ir.Model) -> np.ndarray:
    (result,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": X})
    return np.asarray(result)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMean", "ReduceProd", "ReduceL2", "ReduceLogSumExp"])
@pytest.mark.parametrize(
    "operands", ["x", "x, axes", "x, none"], ids=["without axes", "of axes", "of an empty list of axes"]
)
def test_the_axes_of_a_reduction_become_its_attribute(op_type, operands):
    constants = "axes = Constant <value = int64[2] {0, -1}> () none = Constant <value = int64[0] {}> ()"
    model = model_of(f"{constants} y = {op_type} <keepdims = 1> ({operands})")
    want = value(model)
    (result,) = [Opset17Pass()(model).model]
    onnx.checker.check_model(ir.to_proto(result), full_check=True)
    assert result.opset_imports[""] == 17
    np.testing.assert_allclose(value(result), want, rtol=1e-6)


@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("axes", ["", "0, -1"])
def test_a_reduction_of_no_axes_stays_one(noop, axes):
    constant = f"axes = Constant <value = int64[{2 if axes else 0}] {{{axes}}}> ()"
    model = model_of(f"{constant} y = ReduceMax <keepdims = 1, noop_with_empty_axes = {noop}> (x, axes)")
    want = value(model)
    if noop and not axes:
        with pytest.raises(ConversionError, match="ReduceMax: 1,"):
            Opset17Pass()(model)
    else:
        result = Opset17Pass()(model).model
        onnx.checker.check_model(ir.to_proto(result), full_check=True)
        np.testing.assert_array_equal(value(result), want)


def test_a_reduction_that_is_told_to_reduce_nothing_is_refused():
    with pytest.raises(ConversionError, match="ReduceMax: 1,"):
        Opset17Pass()(model_of("y = ReduceMax <keepdims = 1, noop_with_empty_axes = 1> (x)"))


def test_operators_of_other_domains_stay():
    text = '<ir_version: 8, opset_import: ["" : 18, "other" : 1]> g (float[2] x) => (y) { t = other.ReduceMax(x) y, u = other.Split<num_outputs = 2>(t) }'
    model = Opset17Pass()(ir.from_onnx_text(text)).model
    assert [list(node.attributes) for node in model.graph] == [[], ["num_outputs"]]


def test_a_model_of_opset_17_stays():
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x) => (y) { y = ReduceMax<axes = [1]>(x) }'
    model = Opset17Pass()(ir.from_onnx_text(text)).model
    assert model.graph[0].attributes["axes"].value == (1,)


def test_split_loses_the_number_of_its_parts():
    model = Opset17Pass()(model_of("a, y = Split <axis = 2, num_outputs = 2> (x)")).model
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    np.testing.assert_array_equal(value(model), X[:, :, 2:])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("a = Cast <to = 6> (x) b = BitwiseAnd(a, a) c = BitwiseAnd(b, a) y = Cast <to = 1> (c)", "BitwiseAnd: 2,"),
        ('i = Constant <value = int64[2,1,1] {0, 0}> () y = ScatterElements <reduction = "max"> (x, i, x)', "ScatterElements_max: 1,"),
        ("s = Shape(x) r = Shape(s) o = Sub(r, r) y = ReduceMax(x, o)", "ReduceMax: 1,"),
        ("y = Mish(x)", "Mish: 1,"),
    ],
)  # fmt: skip
def test_what_opset_17_does_not_have_is_refused(body, problem):
    with pytest.raises(ConversionError, match=problem):
        Opset17Pass()(model_of(body))
