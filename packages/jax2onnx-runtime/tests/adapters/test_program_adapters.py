"""Adapters that are read, checked and handed to the runs of a model, in the reference runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, TargetError, WeightsError
from jax2onnx_runtime.adapters.pairs import AdapterPair, write_adapters
from jax2onnx_runtime.adapters.program_adapters import AdapterInputs, Adapters
from jax2onnx_runtime.runtimes import reference_runtime
from safetensors.numpy import save_file

RNG = np.random.default_rng(0)
A, B = (RNG.normal(size=size).astype(np.float32) for size in ((4, 2), (2, 3)))


def model_in(dtype: str) -> ir.Model:
    text = """<ir_version: 9, opset_import: ["" : 20]> g (float[N, 4] x, float[4, R] q.a, float[R, 3] q.b) => (float[N, 3] y)
              { p = MatMul(x, q.a) y = MatMul(p, q.b) }""".replace("q.", "q_")
    model = ir.from_onnx_text(text.replace("float[", f"{dtype}["))
    for value, size in zip(model.graph.inputs[1:], ((4, 0), (0, 3)), strict=True):
        assert value.dtype is not None
        value.const_value = ir.Tensor(np.zeros(size, value.dtype.numpy()), name=value.name)
        model.graph.initializers[value.name or ""] = value
    write_adapters(model, [AdapterPair("q_a", "q_b", "R", a_axis=1, b_axis=0, exported=2)])
    return model


@pytest.fixture
def model() -> ir.Model:
    return model_in("float")


@pytest.fixture
def inputs(model: ir.Model) -> AdapterInputs:
    return AdapterInputs(model, reference_runtime)


def test_matrices_by_name(inputs: AdapterInputs) -> None:
    np.testing.assert_array_equal(inputs.read({"q_a": A, "q_b": B})["q_b"], B)


def test_matrices_of_another_precision_are_converted(inputs: AdapterInputs) -> None:
    assert inputs.read({"q_a": A.astype(np.float16), "q_b": B})["q_a"].dtype == np.float32


def test_matrices_of_double_precision_are_taken_by_a_model_in_it() -> None:
    inputs = AdapterInputs(model_in("double"), reference_runtime)
    assert inputs.read({"q_a": A.astype(np.float64), "q_b": B})["q_b"].dtype == np.float64


def test_numbers_that_a_model_in_half_precision_does_not_hold_are_refused() -> None:
    inputs = AdapterInputs(model_in("float16"), reference_runtime)
    with pytest.raises(WeightsError, match="q_a has numbers that float16 does not hold"):
        inputs.read({"q_a": A + np.float32(1e30), "q_b": B})


def test_a_matrix_with_several_axes_in_place_of_one_is_reshaped(inputs: AdapterInputs) -> None:
    np.testing.assert_array_equal(inputs.read({"q_a": A.reshape(2, 2, 2), "q_b": B})["q_a"], A)


@pytest.mark.parametrize(("dtype", "kind"), [("double", np.float64), ("float", np.float32), ("float16", np.float16)])
def test_a_scale_is_rounded_once_to_the_type_of_the_model(dtype: str, kind: type[np.floating[Any]]) -> None:
    a, b = (RNG.normal(size=size).astype(kind) for size in ((4, 2), (2, 3)))
    found = AdapterInputs(model_in(dtype), reference_runtime).read({"q_a": a, "q_b": b}, scale=0.1)["q_b"]
    np.testing.assert_array_equal(found, (b.astype(np.float64) * 0.1).astype(kind))


@pytest.mark.parametrize("scale", [1e6, float("nan")])
def test_a_scale_beyond_the_type_of_the_model_is_refused(scale: float) -> None:
    inputs = AdapterInputs(model_in("float16"), reference_runtime)
    with pytest.raises(WeightsError, match=r"q_b times the scale .* has numbers that float16 does not hold"):
        inputs.read({"q_a": A.astype(np.float16), "q_b": B.astype(np.float16)}, scale=scale)


def test_a_scale_multiplies_the_second_matrix(inputs: AdapterInputs) -> None:
    read = inputs.read({"q_a": A, "q_b": B}, scale=2.0)
    np.testing.assert_array_equal(read["q_b"], 2 * B)


def test_names_of_the_source(inputs: AdapterInputs) -> None:
    read = inputs.read({"lora": {"down": A, "up": B}}, rename={"q_a": "lora.down", "q_b": "lora.up"})
    np.testing.assert_array_equal(read["q_a"], A)


def test_a_file_of_safetensors(inputs: AdapterInputs, tmp_path: Path) -> None:
    save_file({"q_a": A, "q_b": B}, tmp_path / "x.safetensors")
    np.testing.assert_array_equal(inputs.read(tmp_path / "x.safetensors")["q_a"], A)


def test_missing_pairs_add_nothing_where_that_is_meant(model: ir.Model) -> None:
    pair = AdapterPair("q_a", "q_b", "R", a_axis=1, b_axis=0, exported=2)
    for name in ("k_a", "k_b"):
        old = model.graph.initializers["q" + name[1:]]
        value = ir.Value(name=name, type=old.type, shape=old.shape, const_value=old.const_value)
        model.graph.inputs.append(value)
        model.graph.register_initializer(value)
    write_adapters(model, [pair, AdapterPair("k_a", "k_b", "S", a_axis=1, b_axis=0, exported=2)])
    read = AdapterInputs(model, reference_runtime).read({"q_a": A, "q_b": B}, partial=True)
    assert {name: array.shape for name, array in read.items()} == {
        "q_a": (4, 2), "q_b": (2, 3), "k_a": (4, 0), "k_b": (0, 3)
    }  # fmt: skip


BAD = {
    "a missing matrix": ({"q_a": A}, "missing: q_b"),
    "an unknown matrix": ({"q_a": A, "q_b": B, "k_a": A}, "unknown to the model: k_a"),
    "another base": ({"q_a": A[:3], "q_b": B}, r"q_a is float32\[3, 2\], the model takes \[4, R\] for a rank R"),
    "two ranks": ({"q_a": A, "q_b": B[:1]}, "q_a has rank 2, q_b has rank 1"),
    "whole numbers": ({"q_a": A.astype(np.int32), "q_b": B}, "q_a is of int32, which are no floating-point numbers"),
    "double precision": (
        {"q_a": A.astype(np.float64), "q_b": B},
        "q_a is float64, the model takes float32: array.astype",
    ),
    "a vector": ({"q_a": A[0], "q_b": B}, r"q_a is float32\[2\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_adapter_that_does_not_fit_is_refused(inputs: AdapterInputs, name: str) -> None:
    given, message = BAD[name]
    with pytest.raises(WeightsError, match=f"The adapter does not fit the model; {message}"):
        inputs.read(given)


def test_all_that_does_not_fit_is_named_at_once(inputs: AdapterInputs) -> None:
    with pytest.raises(WeightsError, match="missing: q_b; unknown to the model: k_a; q_a is"):
        inputs.read({"q_a": A[:3], "k_a": A})


def test_half_a_pair_is_refused_even_where_pairs_may_be_missing(inputs: AdapterInputs) -> None:
    with pytest.raises(WeightsError, match="missing: q_b"):
        inputs.read({"q_a": A}, partial=True)


def test_an_adapter_of_nothing_is_refused(inputs: AdapterInputs) -> None:
    with pytest.raises(WeightsError, match="it has no matrix of the model"):
        inputs.read({}, partial=True)


def test_a_model_without_adapters_says_how_to_get_them() -> None:
    plain = ir.from_onnx_text('<ir_version: 9, opset_import: ["" : 20]> g (float[N] x) => (float[N] y) { y = Neg(x) }')
    with pytest.raises(OptionError, match=r"takes no adapters: program.with_adapters\(\)"):
        AdapterInputs(plain, reference_runtime).read({"a": A})


def test_the_reference_runtime_has_no_files_of_adapters(inputs: AdapterInputs, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"onnx\.reference has no files of adapters"):
        inputs.save(tmp_path / "x.onnx_adapter", {"q_a": A, "q_b": B})


def test_a_file_that_is_not_there(inputs: AdapterInputs, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="there is no such file"):
        inputs.read(tmp_path / "x.onnx_adapter")


def test_a_call_with_an_adapter(model: ir.Model) -> None:
    loaded = reference_runtime.load(model)
    adapters = Adapters(
        model, reference_runtime, lambda given, args, kwargs: loaded({"x": np.asarray(args[0]), **given})[0]
    )
    x = RNG.normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(adapters.use({"q_a": A, "q_b": B})(x), x @ A @ B, rtol=1e-5)
