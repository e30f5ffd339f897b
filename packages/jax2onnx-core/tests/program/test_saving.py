"""A save is whole or did not happen."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph.saving import writing

WEIGHT = jnp.arange(4096.0, dtype=jnp.float32).reshape(64, 64)


@pytest.fixture(scope="module")
def program():
    return to_onnx(lambda x: x @ WEIGHT, [("B", 64)])


def names(directory):
    """The files there; the random part of their names as ***."""
    return sorted(re.sub(r"[0-9a-f]{16}", "***", path.name) for path in directory.iterdir())


def run(program, path):
    return program.runtime.load(path)({"x": np.eye(64, dtype=np.float32)})[0]


def test_one_file(program, tmp_path):
    path = program.save(tmp_path / "m.onnx")
    assert names(tmp_path) == ["m.onnx"]
    onnx.checker.check_model(path, full_check=True)
    np.testing.assert_array_equal(run(program, path), WEIGHT)


def test_external_data_when_asked_for(program, tmp_path):
    path = program.save(tmp_path / "m.onnx", external_data=True)
    assert names(tmp_path) == ["m.onnx", "m.onnx.***.data"]
    assert path.stat().st_size < 4096
    np.testing.assert_array_equal(run(program, path), WEIGHT)


def test_external_data_when_one_file_cannot_hold_the_weights(program, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_SINGLE_FILE_LIMIT", 1000)
    program.save(tmp_path / "m.onnx")
    assert names(tmp_path) == ["m.onnx", "m.onnx.***.data"]


def test_the_name_of_the_data_file_and_what_it_holds(program, tmp_path):
    path = program.save(tmp_path / "m.onnx", data_file="w.bin", threshold=WEIGHT.nbytes)
    assert (tmp_path / "w.bin").stat().st_size == WEIGHT.nbytes
    np.testing.assert_array_equal(run(program, path), WEIGHT)
    path = program.save(tmp_path / "n.onnx", data_file="v.bin", threshold=WEIGHT.nbytes + 1)
    assert names(tmp_path) == ["m.onnx", "n.onnx", "w.bin"]
    np.testing.assert_array_equal(run(program, path), WEIGHT)


def test_saving_again_leaves_one_model(program, tmp_path):
    for external in (True, True, False, True):
        path = program.save(tmp_path / "m.onnx", external_data=external)
        np.testing.assert_array_equal(run(program, path), WEIGHT)
        assert len(names(tmp_path)) == 1 + external


def test_a_missing_directory(program, tmp_path):
    with pytest.raises(errors.SaveError, match="does not exist; create it first"):
        program.save(tmp_path / "nowhere" / "m.onnx")


def test_a_directory_in_place_of_a_file(program, tmp_path):
    with pytest.raises(errors.SaveError, match="it is a directory; give the name of a file"):
        program.save(tmp_path)


def test_variants_make_their_directory(program, tmp_path):
    (path,) = program.save_variants(tmp_path / "out", one={"B": 1})
    assert path == tmp_path / "out" / "one.onnx"
    with pytest.raises(errors.SaveError, match="nowhere does not exist; create it first"):
        program.save_variants(tmp_path / "nowhere" / "out", one={"B": 1})
    with pytest.raises(errors.SaveError, match="it is no directory"):
        program.save_variants(path, one={"B": 1})


def test_variants_keep_out_of_the_way_of_older_ones(tmp_path):
    for size, name in ((1.0, "old"), (2.0, "new")):
        to_onnx(lambda x, size=size: x @ (size * WEIGHT), [("B", 64)]).save_variants(tmp_path, **{name: {"B": 64}})
    program = to_onnx(lambda x: x @ WEIGHT, [("B", 64)])
    np.testing.assert_array_equal(run(program, tmp_path / "old.onnx"), WEIGHT)
    np.testing.assert_array_equal(run(program, tmp_path / "new.onnx"), 2 * WEIGHT)


@pytest.mark.parametrize("name", ["../x", "", ".", "a\0"])
def test_names_of_variants(program, tmp_path, name):
    (tmp_path / "out").mkdir()
    with pytest.raises(errors.SaveError, match="it has to be the name of a file, without a directory"):
        program.save_variants(tmp_path / "out", **{name: {"B": 1}})
    assert names(tmp_path) == ["out"]


def test_the_same_bytes_twice(program, tmp_path):
    again = to_onnx(lambda x: x @ WEIGHT, [("B", 64)])
    assert again.model_proto.SerializeToString(deterministic=True) == program.model_proto.SerializeToString(
        deterministic=True
    )


def test_tied_and_equal_weights_are_stored_once():
    weight = jnp.arange(128.0 * 128).reshape(128, 128)
    copy, other = jnp.array(weight), weight.at[3, 7].add(1.0)
    tied = to_onnx(lambda x: x @ weight @ weight @ copy @ other, [("B", 128)])
    assert np.sum([v.const_value.nbytes for v in tied.model.graph.initializers.values()]) == 2 * weight.nbytes


def test_equal_constants_that_are_computed_are_stored_once():
    program = to_onnx(lambda x: (x + jnp.arange(600.0)) * jnp.arange(600.0), [("B", 600)])
    assert [value.const_value.size for value in program.model.graph.initializers.values()] == [600]
