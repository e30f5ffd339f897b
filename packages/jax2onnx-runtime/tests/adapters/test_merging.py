"""Adapters merged into the weights that they belong to."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.adapters.merging import with_merged_adapters
from jax2onnx_runtime.adapters.optional_inputs import exported_matrices

from examples.low_rank_models import FOUND, NOT_FOUND, make_model, matrix, run


@pytest.mark.parametrize("name", FOUND)
def test_a_merged_model_computes_the_same(name: str) -> None:
    model = make_model(FOUND[name])
    np.testing.assert_allclose(
        run(with_merged_adapters(model, [], exported_matrices)), run(model), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", FOUND)
def test_nothing_is_computed_of_a_merged_adapter(name: str) -> None:
    merged = with_merged_adapters(make_model(FOUND[name]), [], exported_matrices)
    assert {node.op_type for node in merged.graph} <= {"MatMul", "Gemm", "Add"}
    assert not {"a", "b", "a_t", "b_t"} & set(merged.graph.initializers)


def test_the_weight_keeps_its_name() -> None:
    merged = with_merged_adapters(make_model(FOUND["a sum"]), [], exported_matrices)
    assert list(merged.graph.initializers) == ["w"]


def test_two_adapters_of_one_weight_are_merged_both() -> None:
    model = make_model(
        "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) p2 = MatMul(x, a2) q2 = MatMul(p2, b2) y = Add(s, q2)"
    )
    merged = with_merged_adapters(model, [], exported_matrices)
    np.testing.assert_allclose(run(merged), run(model), rtol=1e-4, atol=1e-5)
    assert [node.op_type for node in merged.graph] == ["MatMul"]


def test_a_weight_that_something_else_reads_stays_beside_the_merged_one() -> None:
    model = make_model(
        "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) z = Neg(x) k = MatMul(z, w) y = Mul(s, k)"
    )
    merged = with_merged_adapters(model, [], exported_matrices)
    np.testing.assert_allclose(run(merged), run(model), rtol=1e-4, atol=1e-5)


def test_two_adapters_of_a_weight_that_something_else_reads_are_merged_both() -> None:
    model = make_model(
        "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) p2 = MatMul(x, a2) q2 = MatMul(p2, b2) s2 = Add(s, q2) "
        "z = Neg(x) k = MatMul(z, w) y = Mul(s2, k)"
    )
    merged = with_merged_adapters(model, [], exported_matrices)
    np.testing.assert_allclose(run(merged), run(model), rtol=1e-4, atol=1e-5)


def test_sums_in_half_precision_are_rounded_once() -> None:
    model = make_model(FOUND["a sum"])
    w = model.graph.initializers["w"]
    w.const_value, w.type = ir.Tensor(matrix("w").astype(ml_dtypes.bfloat16)), ir.TensorType(ir.DataType.BFLOAT16)
    cast = ir.node("Cast", [w], {"to": ir.DataType.FLOAT})
    cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([8, 6])
    product = next(node for node in model.graph if node.op_type == "MatMul")
    model.graph.insert_before(product, cast)
    product.replace_input_with(1, cast.outputs[0])
    merged = with_merged_adapters(model, [], exported_matrices)
    tensor = merged.graph.initializers["w"].const_value
    assert tensor is not None
    wanted = matrix("w").astype(ml_dtypes.bfloat16).astype(np.float32) + matrix("a") @ matrix("b")
    np.testing.assert_array_equal(tensor.numpy(), wanted.astype(ml_dtypes.bfloat16))


def test_what_is_added_to_nothing_cannot_be_merged() -> None:
    with pytest.raises(
        OptionError, match="cannot be merged: its product is read more than once, or returned by itself"
    ):
        with_merged_adapters(make_model(NOT_FOUND["no weight beside it"]), ["a"], exported_matrices)


def test_one_pair_at_two_products_of_a_weight_has_the_scale_of_each() -> None:
    model = make_model(
        "h = MatMul(x, w) p = MatMul(x, a) q = MatMul(p, b) s = Add(h, q) z = Neg(x) k = MatMul(z, w) p2 = MatMul(z, a) q0 = MatMul(p2, b) "
        "q2 = Mul(half, q0) s2 = Add(k, q2) e = Exp(z) f = MatMul(e, w) t = Add(s, f) y = Mul(t, s2)"
    )
    merged = with_merged_adapters(model, [], exported_matrices)
    np.testing.assert_allclose(run(merged), run(model), rtol=1e-4, atol=1e-5)
