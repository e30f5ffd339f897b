"""Rules of `FoldWeightSums`."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.fold_weight_sums import FoldWeightSums
from onnx_ir.passes.common import RemoveUnusedNodesPass

from examples.low_rank_models import make_model, run


def folded(nodes: str) -> ir.Model:
    model = make_model(nodes)
    before = run(model)
    FoldWeightSums()(model)
    RemoveUnusedNodesPass()(model)
    np.testing.assert_allclose(run(model), before, rtol=1e-4, atol=1e-5)
    return model


@pytest.mark.parametrize(
    "nodes",
    [
        "d = MatMul(a, b) s = Add(w, d) y = MatMul(x, s)",
        "d = MatMul(a, b) s = Add(d, w) y = MatMul(x, s)",
        "d0 = MatMul(a, b) d = Mul(half, d0) s = Add(w, d) y = MatMul(x, s)",
        "c = Mul(a, half) d = MatMul(c, b) s = Sub(w, d) y = MatMul(x, s)",
        "d = MatMul(a, b) e = MatMul(a2, b2) f = Add(d, e) s = Add(w, f) y = MatMul(x, s)",
    ],
)
def test_rule_1_a_weight_with_a_product_added_is_one_weight(nodes: str) -> None:
    model = folded(nodes)
    (name,) = model.graph.initializers
    assert ([node.op_type for node in model.graph], name.startswith("w_")) == (["MatMul"], True)


def test_each_sum_of_a_weight_is_a_weight_of_its_own() -> None:
    nodes = "d = MatMul(a, b) s = Add(w, d) t = Sub(w, d) e = MatMul(a2, b2) u = Add(w, e) h = MatMul(x, s) i = MatMul(x, t) j = MatMul(x, u)"
    model = folded(f"{nodes} y = Sum(h, i, j)")
    assert ([node.op_type for node in model.graph], len(model.graph.initializers)) == (["MatMul"] * 3 + ["Sum"], 3)


@pytest.mark.parametrize(
    "nodes",
    [
        "d = MatMul(a, b) y = MatMul(x, d)",
        "z = MatMul(x, w) d = MatMul(x, v) y = Add(z, d)",
        "d0 = MatMul(a, b) d = Tanh(d0) s = Add(w, d) y = MatMul(x, s)",
        "s = Add(w, v) z = MatMul(x, s) k = MatMul(x, w) y = Add(z, k)",
    ],
)
def test_other_sums_stay(nodes: str) -> None:
    before = [node.op_type for node in make_model(nodes).graph]
    assert [node.op_type for node in folded(nodes).graph] == before


def test_a_large_sum_is_computed_when_it_is_read() -> None:
    model = make_model("d = MatMul(a, b) s = Add(w, d) y = MatMul(x, s)")
    for name, shape in (("a", (64, 2)), ("b", (2, 64)), ("w", (64, 64))):
        value = model.graph.initializers[name]
        value.const_value, value.shape = ir.Tensor(np.ones(shape, np.float32), name=name), ir.Shape(shape)
    for node in list(model.graph)[:2]:
        node.outputs[0].shape = ir.Shape([64, 64])
    FoldWeightSums()(model)
    tensor = list(model.graph.initializers.values())[-1].const_value
    assert isinstance(tensor, ir.LazyTensor)
    np.testing.assert_array_equal(tensor.numpy(), np.full((64, 64), 3.0))
