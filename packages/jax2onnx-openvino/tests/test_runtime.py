"""The runtime OpenVINO: its version, and loading with options."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_openvino.runtime import OpenVinoRuntime
from jax2onnx_runtime.states import RuntimeOptions

openvino = pytest.importorskip("openvino")

TEXT = '<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
X = np.array([1, -2], np.float32)


def test_the_title_names_the_version():
    assert OpenVinoRuntime().title == f"OpenVINO {openvino.__version__.partition('-')[0]}"


def test_a_number_of_threads_is_kept():
    from jax2onnx_openvino.loading import load

    model = load(ir.from_onnx_text(TEXT), threads=1)
    assert model.compiled.get_property("INFERENCE_NUM_THREADS") == 1
    opened = OpenVinoRuntime().open(ir.from_onnx_text(TEXT), (), RuntimeOptions(threads=1))
    np.testing.assert_array_equal(opened.run({"x": X})[0], -X)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (RuntimeOptions(threads=0), "threads is a whole number from 1 on"),
        (RuntimeOptions(threads=1, providers=["CPU"]), "takes the option threads here; it has no providers"),
    ],
)
def test_options_that_it_does_not_have(options, why):
    with pytest.raises(OptionError, match=why):
        OpenVinoRuntime().open(ir.from_onnx_text(TEXT), (), options)
