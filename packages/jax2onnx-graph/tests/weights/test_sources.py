"""Weights from mappings, safetensors files and Orbax checkpoints, one tensor at a time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.weights import _safetensors_files as safetensors_files
from jax2onnx_graph.weights.opening import open_weights
from safetensors.numpy import save_file

ARRAYS = {
    "a.kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "a.bias": np.ones(4, ml_dtypes.bfloat16),
    "count": np.array(3, np.int64),
    "mask": np.array([True, False]),
}


def file(folder: Path, name: str = "model.safetensors", arrays: dict[str, np.ndarray] = ARRAYS) -> Path:
    save_file(arrays, folder / name)
    return folder / name


def check(source: object) -> None:
    opened = open_weights(source)
    assert set(opened) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert opened.type_of(name) == (array.dtype, array.shape)
        np.testing.assert_array_equal(opened[name], array)


def test_a_mapping() -> None:
    check(ARRAYS)


def test_names_of_nested_containers_are_joined() -> None:
    opened = open_weights({"layers": [{"w": np.ones(2)}, {"w": np.ones(3)}], "scale": 2.0, "none": None})
    assert sorted(opened) == ["layers.0.w", "layers.1.w", "scale"]


def test_names_that_meet_are_refused() -> None:
    with pytest.raises(WeightsError, match=r"Two weights are called a\.b"):
        open_weights({"a.b": np.ones(2), "a": {"b": np.ones(2)}})
    assert sorted(open_weights({"a.b": np.ones(2), "a": {"b": None, "c": np.ones(2)}})) == ["a.b", "a.c"]


def test_a_function_is_called_when_its_weight_is_read() -> None:
    opened = open_weights({"a": lambda: np.ones(3)})
    assert opened.type_of("a") is None
    assert opened["a"].shape == (3,)


def test_a_safetensors_file(tmp_path: Path) -> None:
    check(file(tmp_path))
    check(str(file(tmp_path)))


def test_a_directory_with_one_file(tmp_path: Path) -> None:
    file(tmp_path)
    check(tmp_path)


def test_files_with_an_index(tmp_path: Path) -> None:
    names = list(ARRAYS)
    parts = {"one.safetensors": names[:2], "two.safetensors": names[2:]}
    for part, of in parts.items():
        file(tmp_path, part, {name: ARRAYS[name] for name in of})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: part for part, of in parts.items() for name in of}}))
    check(index)
    check(tmp_path)


def test_a_large_tensor_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_files, "_BLOCK", 32)
    blocks = list(open_weights(file(tmp_path)).blocks("a.kernel"))
    assert [block.shape for block in blocks] == [(2, 4), (1, 4)]
    np.testing.assert_array_equal(np.concatenate(blocks), ARRAYS["a.kernel"])
    monkeypatch.setattr(safetensors_files, "_BLOCK", 48)
    assert [block.shape for block in open_weights(file(tmp_path)).blocks("a.kernel")] == [(3, 4)]
    assert len(open_weights(file(tmp_path))) == len(ARRAYS)


def test_a_checkpoint_of_orbax(tmp_path: Path) -> None:
    checkpoint = pytest.importorskip("orbax.checkpoint")
    tree = {
        "a": {name: ARRAYS[f"a.{name}"] for name in ("kernel", "bias")}, "count": ARRAYS["count"], "mask": ARRAYS["mask"]
    }  # fmt: skip
    with checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "checkpoint", {"params": tree, "list": [np.ones(2)]})
    opened = open_weights(tmp_path / "checkpoint")
    np.testing.assert_array_equal(opened["list.0"], np.ones(2))
    check(opened.under("params"))


def test_a_part_has_the_names_under_a_path() -> None:
    part = open_weights({"params": {"a": np.ones(2)}, "step": np.ones(())}).under("params")
    assert dict(part).keys() == {"a"}
    assert len(part) == 1


@pytest.mark.parametrize("source", [3, "nowhere.safetensors"])
def test_what_is_no_source_is_refused(source: object) -> None:
    with pytest.raises(WeightsError, match=r"from int|no such file"):
        open_weights(source)


def test_what_is_no_array_is_named() -> None:
    with pytest.raises(WeightsError, match=r"a\.b is no array"):
        open_weights({"a": {"b": "text"}})


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no safetensors files"):
        open_weights(tmp_path)


def test_a_file_that_ends_within_a_tensor_is_refused(tmp_path: Path) -> None:
    path = file(tmp_path)
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-5])
    message = r"Cannot read .*model\.safetensors: .*a tensor ends at byte (\d+), the file has (\d+)"
    with pytest.raises(WeightsError, match=message) as raised:
        open_weights(path)
    end, size = map(int, re.findall(r"byte (\d+), the file has (\d+)", str(raised.value))[0])
    assert (size, size < end <= whole) == (whole - 5, True)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"not one")
    with pytest.raises(WeightsError, match="Cannot read"):
        open_weights(path)


def test_an_index_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text("{}")
    with pytest.raises(WeightsError, match="no index"):
        open_weights(path)


def test_an_index_that_promises_too_much_is_refused(tmp_path: Path) -> None:
    file(tmp_path)
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"absent": "model.safetensors"}}))
    with pytest.raises(WeightsError, match="lacks absent"):
        open_weights(path)


def written(path: Path, header: object, data: bytes = bytes(16)) -> Path:
    """A file with such a header."""
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [4], "data_offsets": [0, 12]}, r"F32\[4\] does not take 12 bytes"),
        ({"dtype": "F32", "shape": [-4], "data_offsets": [0, -16]}, "does not take|ends at"),
        ({"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}, "the file has"),
        ({"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}, "no array of elements of the type F4"),
        ({"dtype": "F32", "shape": [4]}, "the header has the entry"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path: Path, entry: object, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        open_weights(written(tmp_path / "model.safetensors", {"w": entry}))


@pytest.mark.parametrize("header", [[], "text", {"w": 3}])
def test_what_is_no_header_is_refused(tmp_path: Path, header: object) -> None:
    with pytest.raises(WeightsError, match="Cannot read"):
        open_weights(written(tmp_path / "model.safetensors", header))


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float64", "int8", "int16", "uint16", "uint64", "bool", ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
)
def test_tensors_are_those_that_the_library_wrote(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.integers(0, 2, (3, 5)).astype(dtype),
        "empty": np.zeros((0, 3), dtype),
        "one": np.ones((), dtype),
    }
    opened = open_weights(file(tmp_path, arrays=arrays))
    for name, array in arrays.items():
        assert opened.type_of(name) == (array.dtype, array.shape)
        assert opened[name].tobytes() == array.tobytes()
