"""The tools that measure ONNX Runtime: a measurement adds to what is known, and a refused input is a loss."""

from __future__ import annotations

import json

import measure_ort_guarantees
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import RuntimeInputError
from measured_tables import write


def table(version: str, types: str = "f32") -> dict[str, object]:
    return {"onnxruntime": version, "opset": 23, "kernels": {"Add": {"18": {"T": types}}}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels.json").write_text(json.dumps(table("1.31.1")))
    return tmp_path


def files(folder) -> dict[str, object]:
    return {str(path.relative_to(folder)): json.loads(path.read_text()) for path in folder.rglob("*.json")}


def test_a_newer_version_moves_the_newest_one_among_the_older(folder):
    write(table("1.32.0", "f32 i64"), "kernels", folder)
    assert files(folder) == {
        "kernels.json": table("1.32.0", "f32 i64"),
        "versions/kernels-1.31.json": table("1.31.1"),
    }


def test_an_older_version_has_a_file_of_its_own(folder):
    write(table("1.20.1"), "kernels", folder)
    assert files(folder) == {"kernels.json": table("1.31.1"), "versions/kernels-1.20.json": table("1.20.1")}


@pytest.mark.parametrize("patch", ["1.31.0", "1.31.2"])
def test_a_patch_takes_the_place_of_its_version(folder, patch):
    write(table(patch, "i8"), "kernels", folder)
    assert files(folder) == {"kernels.json": table(patch, "i8")}


def test_an_input_that_the_runtime_refuses_is_a_loss(monkeypatch):
    def refuse(feeds):
        raise RuntimeInputError("The image has no elements.")

    monkeypatch.setattr(measure_ort_guarantees, "load", lambda model: refuse)
    probe = measure_ort_guarantees.Probe("Relu", "empty", [[1.0]], np.abs)
    assert measure_ort_guarantees.is_kept(probe, ir.DataType.FLOAT) is False
