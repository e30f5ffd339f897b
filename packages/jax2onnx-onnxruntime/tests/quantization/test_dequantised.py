"""Weights behind DequantizeLinear: 4 bits in blocks, and float8."""

from __future__ import annotations

import functools
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from jax2onnx_graph.errors import TargetError
from jax2onnx_onnxruntime._quantization import dequantised
from jax2onnx_onnxruntime._quantization.dequantised import stored
from jax2onnx_onnxruntime.loading import load
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_onnxruntime.target import OnnxRuntime
from jax2onnx_runtime.quantization import Mode, Quantization
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

quantize = functools.partial(OrtRuntime().quantize, target=OnnxRuntime())
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(70, 24)).astype(np.float32)  # blocks of 32 do not fill the rows
X = RNG.normal(size=(5, 70)).astype(np.float32)
MODES: list[Mode] = ["int4_qdq", "float8"]


@pytest.fixture
def model() -> ir.Model:
    made = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[N,70] x, float[70,24] w) => (float[N,24] y) { y = MatMul(x, w) }'
    )
    value = made.graph.inputs.pop()
    value.const_value = ir.Tensor(WEIGHT, name="w")
    made.graph.register_initializer(value)
    return made


@pytest.mark.parametrize("mode", MODES)
def test_the_file_is_of_standard_operators(model: ir.Model, mode: Mode) -> None:
    proto = ir.to_proto(quantize(model, Quantization(mode)))
    onnx.checker.check_model(proto, full_check=True)
    assert {node.domain for node in proto.graph.node} == {""}


@pytest.mark.parametrize("mode", MODES)
def test_every_runtime_of_the_standard_computes_with_the_weights_of_the_file(model: ir.Model, mode: Mode) -> None:
    proto = ir.to_proto(quantize(model, Quantization(mode)))
    wanted = X @ stored(WEIGHT, Quantization(mode)).restored()
    (found, *_) = ReferenceEvaluator(proto).run(None, {"x": X})
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_the_runtime_computes_with_the_weights_of_the_file(model: ir.Model, mode: Mode) -> None:
    wanted = X @ stored(WEIGHT, Quantization(mode)).restored()
    found = load(quantize(model, Quantization(mode)))({"x": X})[0]
    assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)


def _in_a_branch() -> ir.Model:
    model = ir.from_onnx_text("""<ir_version: 9, opset_import: ["" : 18]> g (float[N,70] x, bool c, float[70,24] w) => (float[N,24] y) {
        y = If(c) <
            then_branch = a () => (float[N,24] t) { t = MatMul(x, w) },
            else_branch = b () => (float[N,24] e) { n = Neg(x) m = MatMul(n, w) e = Relu(m) }
        >
    }""")
    value = model.graph.inputs.pop()
    value.const_value = ir.Tensor(WEIGHT, name="w")
    model.graph.register_initializer(value)
    return model


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chosen", [True, False])
def test_products_in_branches(mode: Mode, chosen: bool) -> None:
    product = (X if chosen else -X) @ stored(WEIGHT, Quantization(mode)).restored()
    wanted = product if chosen else np.maximum(product, 0)
    found = load(quantize(_in_a_branch(), Quantization(mode)))({"x": X, "c": np.array(chosen)})[0]
    assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)


@pytest.mark.parametrize(("mode", "noise"), [("int4_qdq", 0.12), ("float8", 0.04)])
def test_the_noise_is_that_of_the_type(mode: Mode, noise: float) -> None:
    restored = stored(WEIGHT, Quantization(mode)).restored()
    assert np.linalg.norm(restored - WEIGHT) < noise * np.linalg.norm(WEIGHT)


@pytest.mark.parametrize("mode", MODES)
def test_zeros_stay_zeros(mode: Mode) -> None:
    np.testing.assert_array_equal(stored(np.zeros((64, 3), np.float32), Quantization(mode)).restored(), 0)


@pytest.mark.parametrize("mode", MODES)
def test_products_with_zeros_are_zeros(model: ir.Model, mode: Mode) -> None:
    weight = WEIGHT.copy()
    weight[:, 3] = 0
    model.graph.initializers["w"].const_value = ir.Tensor(weight, name="w")
    (found,) = load(quantize(model, Quantization(mode)))({"x": X})
    np.testing.assert_allclose(found[:, 3], 0, atol=1e-36)


@pytest.mark.parametrize(("mode", "largest"), [("int4_qdq", 7), ("float8", 448)])
@pytest.mark.parametrize("scale", [1.4 * 2.0**-149, 2.6 * 2.0**-149, 2.0**-127, 2.0**-126])
def test_scales_that_lose_digits_change_no_sign(mode: Mode, largest: int, scale: float) -> None:
    weight = np.full((64, 1), largest * scale, np.float32)
    restored = stored(weight, Quantization(mode)).restored()
    rtol, atol = (1e-7, 0) if scale >= 2.0**-126 else (1 / 16, 2.0**-127)
    np.testing.assert_allclose(restored, weight, rtol, atol)
    assert (restored >= 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_columns_of_nearly_nothing_are_finite(mode: Mode) -> None:
    weight = WEIGHT.copy()
    weight[:, 3] = 1e-44
    np.testing.assert_allclose(stored(weight, Quantization(mode)).restored()[:, 3], 0, atol=1e-40)


def test_the_largest_numbers_are_exact_in_float8() -> None:
    largest = np.abs(WEIGHT).max(axis=0)
    restored = np.abs(stored(WEIGHT, Quantization("float8")).restored()).max(axis=0)
    np.testing.assert_allclose(restored, largest, rtol=1e-6)


def test_the_types_are_those_of_the_modes(model: ir.Model) -> None:
    types = {mode: quantize(model, Quantization(mode)).graph.initializers["w.numbers"].dtype for mode in MODES}
    assert types == {"int4_qdq": ir.DataType.INT4, "float8": ir.DataType.FLOAT8E4M3FN}


def test_a_runtime_that_drops_precision_is_refused(model: ir.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that casts what it reads to whole numbers computes something else than the file says."""

    def casting(made: ir.Model) -> object:
        loaded = load(made)
        return lambda feeds: [array.astype(np.int32).astype(np.float32) for array in loaded(feeds)]

    monkeypatch.setattr(dequantised, "load", casting)
    with pytest.raises(TargetError, match=r"differ from those of the file by .* so that precision would be dropped"):
        quantize(model, Quantization("float8"))


def test_a_node_that_changes_its_meaning_is_refused() -> None:
    made = ir.from_onnx_text(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[N,70] x, float[70,24] w) => (float[N,24] y)
           { z = GroupNormalization<num_groups=1>(x, s, s) y = MatMul(z, w) }""".replace("(x, s, s)", "(x, x, x)")
    )
    value = made.graph.inputs.pop()
    value.const_value = ir.Tensor(WEIGHT.astype(ml_dtypes.bfloat16).astype(np.float32), name="w")
    made.graph.register_initializer(value)
    with pytest.raises(TargetError, match=r"GroupNormalization .* means something else at opset 21"):
        quantize(made, Quantization("float8"))


# Products that ONNX Runtime computes with 4 bits as they are.

READERS = {
    "a relu": "h = Relu(p) y = MatMul(h, v)",
    "a relu of a relu": "g = Relu(p) h = Relu(g) y = MatMul(h, v)",
    "a clip": "low = Constant<value_float=-1.0>() high = Constant<value_float=6.0>() h = Clip(p, low, high) y = MatMul(h, v)",
    "a bias and a relu": "c = Constant<value_floats=[0.5]>() b = Add(p, c) h = Relu(b) y = MatMul(h, v)",
    "a relu and others": "h = Relu(p) q = MatMul(h, v) y = Mul(q, p)",
    "a relu in a branch": "z = Constant<value_float=0.0>() s = ReduceMax<keepdims = 0>(x) c = Less(z, s) h = If(c) <then_branch = f () => (a) { a = Relu(p) }, "
    "else_branch = g () => (b) { b = Neg(p) }> y = MatMul(h, v)",
}


@pytest.mark.parametrize("rows", ["B,N", "N"])
@pytest.mark.parametrize("name", READERS)
def test_products_are_computed_in_few_bits(name: str, rows: str, tmp_path: Path) -> None:
    made = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["" : 18]> g '
        f"(float[{rows},64] x, float[64,64] w, float[64,64] v) => (float[{rows},64] y) "
        f"{{ p = MatMul(x, w) {READERS[name]} }}"
    )
    for value in [made.graph.inputs.pop(1), made.graph.inputs.pop(1)]:
        value.const_value = ir.Tensor(RNG.normal(size=(64, 64)).astype(np.float32), name=value.name)
        made.graph.register_initializer(value)
    ShapeInferencePass()(made)
    few = quantize(made, Quantization("int4_qdq"))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "m.onnx"), 3
    session = onnxruntime.InferenceSession(ir.to_proto(few).SerializeToString(), options)
    operators = [node.op_type for node in ir.load(tmp_path / "m.onnx").graph]
    assert operators.count("MatMulNBits") == sum(node.op_type == "MatMul" for node in made.graph)
    x = RNG.normal(size=(2, 3, 64)[-len(rows.split(",")) - 1 :]).astype(np.float32)
    by_file = ReferenceEvaluator(ir.to_proto(few))
    (found,), wanted = session.run(None, {"x": x}), np.asarray(next(iter(by_file.run(None, {"x": x}))))
    assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)
    x[0, ..., 0] = np.nan  # which the runtime's product of 8-bit activations loses
    np.testing.assert_array_equal(
        np.isnan(next(iter(by_file.run(None, {"x": x})))).all(axis=-1), np.isnan(x).any(axis=-1)
    )
