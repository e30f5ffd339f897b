"""Sizes that are found beside copied ones which may be 0."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.metadata import note_sizes
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.passes.structural.compute_sizes import ComputeSizes
from onnx.reference import ReferenceEvaluator

GRAPH = """<ir_version: 10, opset_import: ["" : 20]> g (float[{dims}] x) => (float[{result}] y)
    <int64[{rank}] s = {{{shape}}}> {{ y = Reshape(x, s) }}"""


def computed(dims: str, shape: str, result: str, **may_be_zero: bool) -> ir.Model:
    model = ir.from_onnx_text(GRAPH.format(dims=dims, shape=shape, rank=len(shape.split(",")), result=result))
    note_sizes(model, {"S": True, "T": True, **{symbol: not zero for symbol, zero in may_be_zero.items()}})
    ComputeSizes()(model)
    make_names_unique(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


@pytest.mark.parametrize(
    ("dims", "shape", "result", "operators", "sizes"),
    [
        ("S,T,2", "0,-1", "S,U", ["Shape", "Shape", "Mul", "Concat", "Reshape"], {(3, 5, 2): (3, 10), (0, 5, 2): (0, 10)}),
        (
            "S,T,6", "0,1,-1,4", "S,1,U,4", ["Shape", "Shape", "Mul", "Div", "Concat", "Reshape"],
            {(3, 2, 6): (3, 1, 3, 4), (0, 2, 6): (0, 1, 3, 4)},
        ),
        ("T,S,4,3", "-1,0,2", "U,S,2", ["Shape", "Mul", "Shape", "Concat", "Reshape"], {(5, 2, 4, 3): (30, 2, 2), (5, 0, 4, 3): (30, 0, 2)}),
        ("S,6", "0,3,-1", "S,3,2", ["Shape", "Concat", "Reshape"], {(1, 6): (1, 3, 2), (0, 6): (0, 3, 2)}),
    ],
)  # fmt: skip
def test_a_size_beside_one_that_may_be_0_is_computed(dims, shape, result, operators, sizes):
    model = computed(dims, shape, result, S=True)
    assert [node.op_type for node in model.graph] == operators
    evaluator = ReferenceEvaluator(ir.to_proto(model))
    for given, wanted in sizes.items():
        x = np.arange(np.prod(given), dtype=np.float32).reshape(given)
        (y,) = evaluator.run(None, {"x": x})
        np.testing.assert_array_equal(y, x.reshape(wanted))


@pytest.mark.parametrize(("shape", "result"), [("0,-1", "S,U"), ("0,0,2,1", "S,T,2,1"), ("-1,2", "U,2")])
def test_other_shapes_stay(shape, result):
    symbol = {} if shape == "0,-1" else {"S": True}
    assert [node.op_type for node in computed("S,T,2", shape, result, **symbol).graph] == ["Reshape"]
