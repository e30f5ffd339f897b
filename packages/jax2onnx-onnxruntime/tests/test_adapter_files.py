"""Adapters in files of ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import SaveError, WeightsError
from jax2onnx_onnxruntime._adapter_files import read_adapter_file, write_adapter_file

MATRICES: dict[str, Array] = {
    "a.kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "b": np.array([2], np.int64),
    "half": np.array([1, 2], np.float16),
    "brain": np.array([1, 2], ml_dtypes.bfloat16),
}


def test_matrices_are_read_as_they_were_written(tmp_path):
    write_adapter_file(tmp_path / "adapter", MATRICES)
    found = read_adapter_file(tmp_path / "adapter")
    assert found.keys() == MATRICES.keys()
    for name, array in MATRICES.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("content", [b"", b"no adapter", bytes(1000)])
def test_a_file_that_is_no_adapter_is_refused(tmp_path, content):
    (tmp_path / "adapter").write_bytes(content)
    with pytest.raises(WeightsError, match="adapter holds no adapter that ONNX Runtime reads"):
        read_adapter_file(tmp_path / "adapter")


def test_a_file_that_cannot_be_written_leaves_the_one_that_was_there(tmp_path, monkeypatch):
    def full(self: object, path: str) -> None:
        raise RuntimeError("No space left on device")

    write_adapter_file(tmp_path / "adapter", MATRICES)
    monkeypatch.setattr(onnxruntime.AdapterFormat, "export_adapter", full)
    with pytest.raises(SaveError, match=r"adapter: No space left on device\. What was there is whole"):
        write_adapter_file(tmp_path / "adapter", {"b": np.zeros(1)})
    assert read_adapter_file(tmp_path / "adapter").keys() == MATRICES.keys()
    assert [file.name for file in tmp_path.iterdir()] == ["adapter"]
