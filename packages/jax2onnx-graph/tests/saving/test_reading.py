"""Reading the files of models: those that are, with their data files, and those that are none."""

from __future__ import annotations

import io
import os
import re

import numpy as np
import onnx
import pytest
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.saving.packing import PackedModel
from jax2onnx_graph.saving.reading import are_data_files_unchanged, read_model
from jax2onnx_graph.saving.writing import save_model
from onnx import TensorProto, helper

TEXT = '<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[N] y) <float w = {2}> { y = Mul(x, w) }'


def test_a_model_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    for given in (path, str(path)):
        assert [node.op_type for node in read_model(given).graph] == ["Mul"]


@pytest.mark.parametrize("name", ["m.json", "m.textproto", "m.onnxtxt", "m"])
def test_the_name_of_a_file_does_not_matter(tmp_path, name):
    (tmp_path / name).write_bytes(onnx.parser.parse_model(TEXT).SerializeToString())
    assert [node.op_type for node in read_model(tmp_path / name).graph] == ["Mul"]


def test_weights_are_read_after_the_working_directory_has_changed(tmp_path, monkeypatch):
    _stored(tmp_path)
    monkeypatch.chdir(tmp_path)
    model = read_model("m.onnx")
    monkeypatch.chdir(tmp_path.parent)
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), np.arange(300))


def test_weights_in_a_data_file_are_read_when_they_are_asked_for(tmp_path):
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.arange(300, dtype=np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    model = read_model(tmp_path / "m.onnx")
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), np.arange(300))


def _stored(folder, numbers=300):
    """A model whose weight is in a data file, from 0 on."""
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.arange(numbers, dtype=np.float32), "w"))
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    return read_model(folder / "m.onnx")


def _replaced(data):
    (data.parent / "other").write_bytes(bytes(data.stat().st_size))
    (data.parent / "other").replace(data)


_CHANGES = {
    "cut": lambda data: data.write_bytes(data.read_bytes()[:100]),
    "removed": lambda data: data.unlink(),
    "written": lambda data: data.write_bytes(bytes(data.stat().st_size)),
    "replaced": _replaced,
}


@pytest.mark.parametrize("change", _CHANGES)
def test_weights_of_a_data_file_that_has_changed_are_refused(tmp_path, change):
    model = _stored(tmp_path)
    assert are_data_files_unchanged(model)
    os.utime(tmp_path / "w.data", ns=(0, 0))  # whatever the resolution of its times is
    _CHANGES[change](tmp_path / "w.data")
    assert not are_data_files_unchanged(model)
    tensor = model.graph.initializers["w"].const_value
    for read in (tensor.numpy, tensor.tobytes, lambda: np.asarray(tensor), lambda: tensor.tofile(io.BytesIO())):
        with pytest.raises(ReadError, match=r"w\.data: it has changed since the model was read"):
            read()
    for save in (lambda: save_model(model, tmp_path / "n.onnx"), lambda: PackedModel.from_model(model)):
        with pytest.raises(ReadError, match="has changed"):
            save()


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_weights_that_were_read_outlive_their_file(tmp_path, change):
    tensor = _stored(tmp_path).graph.initializers["w"].const_value
    tensor.numpy()
    _CHANGES[change](tmp_path / "w.data")
    np.testing.assert_array_equal(np.frombuffer(tensor.tobytes(), np.float32), np.arange(300))


@pytest.mark.parametrize("change", ["cut", "written"])
def test_weights_that_were_read_are_refused_where_their_file_is_written_to(tmp_path, change):
    tensor = _stored(tmp_path).graph.initializers["w"].const_value
    tensor.numpy()
    os.utime(tmp_path / "w.data", ns=(0, 0))
    _CHANGES[change](tmp_path / "w.data")
    with pytest.raises(ReadError, match="has changed"):
        tensor.numpy()


def test_a_data_file_that_is_too_short_is_named(tmp_path):
    _stored(tmp_path)
    _CHANGES["cut"](tmp_path / "w.data")
    with pytest.raises(ReadError, match=r"Cannot read the weight w in .*w\.data: buffer is smaller"):
        read_model(tmp_path / "m.onnx").graph.initializers["w"].const_value.numpy()


@pytest.mark.parametrize("numbers", [3, 3000])
def test_weights_go_with_a_model_that_is_saved_elsewhere(tmp_path, numbers):
    model = _stored(tmp_path, numbers)
    (tmp_path / "other").mkdir()
    save_model(model, tmp_path / "other" / "n.onnx")
    for again in (read_model(tmp_path / "other" / "n.onnx"), PackedModel.from_model(model).unpacked()):
        np.testing.assert_array_equal(again.graph.initializers["w"].const_value.numpy(), np.arange(numbers))


def test_weights_of_subgraphs_are_in_the_memory(tmp_path):
    weight = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    body = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "branch", [], [made], [weight])
    node = helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    onnx.save(
        helper.make_model(graph), tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0
    )
    model = read_model(tmp_path / "m.onnx")
    (tmp_path / "w.data").unlink(missing_ok=True)
    save_model(model, tmp_path / "n.onnx")
    assert len(onnx.load(tmp_path / "n.onnx").graph.node) == 1


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
