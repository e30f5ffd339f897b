"""Reading the files of models: those that are, with their data files, and those that are none."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.saving.reading import read_model
from onnx import TensorProto, helper

TEXT = '<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[N] y) <float w = {2}> { y = Mul(x, w) }'


def test_a_model_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    for given in (path, str(path)):
        assert [node.op_type for node in read_model(given).graph] == ["Mul"]


def test_weights_in_a_data_file_are_read_when_they_are_asked_for(tmp_path):
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.arange(300, dtype=np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    model = read_model(tmp_path / "m.onnx")
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), np.arange(300))


def test_types_of_maps_are_left_out(tmp_path):
    classes = helper.make_value_info("m", helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])
    graph = helper.make_graph([helper.make_node("ZipMap", ["x"], ["m"], domain="ai.onnx.ml")], "g", [x], [classes])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    (value,) = read_model(tmp_path / "m.onnx").graph.outputs
    assert (value.name, value.type) == ("m", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no model at all", "it is no ONNX model."),
        (b"", "it is no ONNX model."),
        (onnx.ModelProto(ir_version=10).SerializeToString(), "it is no ONNX model."),
    ],
)
def test_a_file_that_holds_no_model_is_named(tmp_path, content, message):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=re.escape(f"Cannot read {path}: {message}")):
        read_model(path)


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ReadError, match=re.escape(f"Cannot read {tmp_path / 'm.onnx'}: No such file or directory.")):
        read_model(tmp_path / "m.onnx")


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(ReadError, match="it is a directory; give the name of a model file"):
        read_model(tmp_path)
