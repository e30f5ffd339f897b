"""ONNX Runtime in the place of a runtime that does not run here."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import StatePair
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_onnxruntime.stand_in import OrtStandIn
from jax2onnx_runtime.states import RuntimeOptions

HEAD = '<ir_version: 10, opset_import: ["" : 18]> g '
# The CPU provider has no Where for booleans.
BOOLEANS = HEAD + "(bool[3] c, bool[3] x, bool[3] y) => (bool[3] z) { z = Where(c, x, y) }"
STATE = HEAD + "(bool[2] kept, bool[2] x) => (bool[2] new) { new = Where(x, x, kept) }"
FEEDS = {"c": np.array([True, False, True]), "x": np.array([True, True, False]), "y": np.array([False, True, True])}


def test_it_runs_what_the_processor_has_other_forms_for():
    model = ir.from_onnx_text(BOOLEANS)
    (result,) = OrtStandIn().load(model)(FEEDS)
    np.testing.assert_array_equal(result, [True, True, False])


def test_the_model_stays_as_it_is():
    model = ir.from_onnx_text(BOOLEANS)
    OrtStandIn().load(model)
    assert [node.op_type for node in model.graph] == ["Where"]


def test_it_runs_the_file_of_a_model(tmp_path):
    ir.save(ir.from_onnx_text(BOOLEANS), tmp_path / "m.onnx")
    (result,) = OrtStandIn().load(tmp_path / "m.onnx")(FEEDS)
    np.testing.assert_array_equal(result, [True, True, False])


def test_it_keeps_states():
    loaded = OrtStandIn().open(ir.from_onnx_text(STATE), [StatePair("kept", "new")], RuntimeOptions())
    loaded.write("kept", np.array([False, False]))
    loaded.run({"x": np.array([True, False])})
    np.testing.assert_array_equal(loaded.read("kept"), [True, False])


def test_named_providers_get_the_model_as_it_is():
    with pytest.raises(OptionError, match="TensorrtExecutionProvider"):
        OrtStandIn().open(ir.from_onnx_text(STATE), [], RuntimeOptions(providers=["TensorrtExecutionProvider"]))


def test_it_serves_no_target_of_the_other_runtime():
    assert not OrtStandIn.targets & OrtRuntime.targets
