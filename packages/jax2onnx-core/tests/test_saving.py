"""A save is whole or did not happen."""

from __future__ import annotations

import errno

import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph import saving

WEIGHT = jnp.arange(4096.0, dtype=jnp.float32).reshape(64, 64)


@pytest.fixture(scope="module")
def program():
    return to_onnx(lambda x: x @ WEIGHT, [("B", 64)])


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def run(program, path):
    return program.target.load(path)({"x": np.eye(64, dtype=np.float32)})[0]


def test_one_file(program, tmp_path):
    path = program.save(tmp_path / "m.onnx")
    assert names(tmp_path) == ["m.onnx"]
    onnx.checker.check_model(path, full_check=True)
    np.testing.assert_array_equal(run(program, path), WEIGHT)


def test_external_data_when_asked_for(program, tmp_path):
    path = program.save(tmp_path / "m.onnx", external_data=True)
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]
    assert path.stat().st_size < 4096
    np.testing.assert_array_equal(run(program, path), WEIGHT)


def test_external_data_when_one_file_cannot_hold_the_weights(program, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "_SINGLE_FILE_LIMIT", 1000)
    program.save(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").stat().st_size == WEIGHT.nbytes


def test_saving_again_leaves_one_model(program, tmp_path):
    for external in (True, True, False, True):
        path = program.save(tmp_path / "m.onnx", external_data=external)
        np.testing.assert_array_equal(run(program, path), WEIGHT)
        assert len(names(tmp_path)) == 1 + external


def test_the_model_in_memory_stays_as_it_was(program, tmp_path):
    program.save(tmp_path / "m.onnx", external_data=True)
    (tmp_path / "m.onnx.data").unlink()
    np.testing.assert_array_equal(program(np.eye(64, dtype=np.float32)), WEIGHT)


def test_a_missing_directory(program, tmp_path):
    with pytest.raises(errors.SaveError, match="does not exist; create it first"):
        program.save(tmp_path / "nowhere" / "m.onnx")


def test_a_directory_in_place_of_a_file(program, tmp_path):
    with pytest.raises(errors.SaveError, match="it is a directory; give the name of a file"):
        program.save(tmp_path)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_save_leaves_the_old_file_whole(program, tmp_path, monkeypatch, failure, external):
    path = program.save(tmp_path / "m.onnx", external_data=external)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}

    def fails(model, target, **options):
        target.write_bytes(b"half of a mo")
        raise failure

    monkeypatch.setattr(ir, "save", fails)
    expected = errors.SaveError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected, match="No space left" if isinstance(failure, OSError) else None):
        program.save(path, external_data=external)
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


def test_variants_into_a_missing_directory(program, tmp_path):
    with pytest.raises(errors.SaveError, match="does not exist; create it first"):
        program.save_variants(tmp_path / "nowhere", one={"B": 1})


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
