"""Inputs with defaults, which OpenVINO takes for constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("openvino")

from jax2onnx_graph.saving.writing import save_model
from jax2onnx_openvino.loading import load

FORMS = {
    "model": lambda model, _: model,
    "bytes": lambda model, _: ir.to_proto(model).SerializeToString(),
    "file": lambda model, folder: save_model(model, folder / "model.onnx"),
}
X = np.array([1.0, 2.0], np.float32)


@pytest.fixture
def model() -> ir.Model:
    model = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["" : 20]> g (float[2] x, float[2] k) => (float[2] y) { y = Add(x, k) }'
    )
    given = model.graph.inputs[1]
    given.const_value = ir.Tensor(np.array([10.0, 20.0], np.float32), name="k")
    model.graph.initializers["k"] = given
    return model


@pytest.mark.parametrize("form", FORMS)
def test_the_default_is_taken_where_nothing_is_given(model: ir.Model, form: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(load(FORMS[form](model, tmp_path))({"x": X})[0], [11.0, 22.0])


@pytest.mark.parametrize("form", FORMS)
def test_another_value_can_be_given(model: ir.Model, form: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(load(FORMS[form](model, tmp_path))({"x": X, "k": X})[0], [2.0, 4.0])
