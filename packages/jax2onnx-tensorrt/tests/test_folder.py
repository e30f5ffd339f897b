"""The folder for TensorRT: all files of it agree with the models."""

from __future__ import annotations

import json
import stat

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import OptionError, SaveError, SymbolError
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.folders import FolderWriter
from jax2onnx_tensorrt.writer import writer

WEIGHT = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
OPTIONS = {"profile": ("first:T=1..6,S=0", "step:T=1,S=1..5"), "variant": ("full:T=6,S=0", "one:T=1,S=5")}


def control(frames, cache):
    cache = jnp.concatenate([cache, jnp.tanh(frames @ WEIGHT)], axis=1)
    return cache[:, -1].sum(-1), cache


@pytest.fixture(scope="module")
def program():
    shapes = [(1, "T", 64), (1, "S", 64)]
    return to_onnx(control, shapes, constraints=["S >= 0"], states={1: 1}, target="tensorrt")


@pytest.fixture
def commands(trtexec):
    def commands(folder):
        lines = (folder / "trtexec.sh").read_text().splitlines()
        return [trtexec(line) for line in lines if line.startswith("trtexec")]

    return commands


def test_it_is_a_writer_of_folders():
    assert isinstance(writer, FolderWriter)
    assert {option.name for option in writer.options} == {"profile", "variant", "fp16", "build"}


def test_a_folder_of_the_dynamic_model(program, tmp_path, commands):
    files = writer.write(program, tmp_path / "out", profile=OPTIONS["profile"], fp16=True)
    assert [path.name for path in files] == ["build_engine.py", "model.onnx", "profiles.json", "trtexec.sh"]
    (command,) = commands(tmp_path / "out")
    assert command.flags == {"fp16", "skipInference"}
    model = read_model(tmp_path / "out" / command.onnx)
    inputs = dict(zip((v.name for v in model.graph.inputs), symbol_space(model).inputs, strict=True))
    for profile in command.profiles:
        assert profile.keys() == inputs.keys()
        for name, shapes in profile.items():
            for shape in shapes:
                assert len(shape) == len(inputs[name])
                assert all(size == dim for size, dim in zip(shape, inputs[name], strict=True) if isinstance(dim, int))


def test_the_models_run_at_the_shapes_of_their_profiles(program, tmp_path, commands):
    writer.write(program, tmp_path / "out", profile=OPTIONS["profile"])
    (command,) = commands(tmp_path / "out")
    loaded = program.runtime.load(tmp_path / "out" / command.onnx)
    for profile in command.profiles:
        for part in range(3):
            feeds = {name: np.ones(shapes[part], np.float32) for name, shapes in profile.items()}
            want = control(feeds["frames"], feeds["cache"])
            for got, expected in zip(loaded(feeds), want, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_variants_are_static_models_that_share_weights(program, tmp_path, commands):
    writer.write(program, tmp_path / "out", variant=OPTIONS["variant"])
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"full.onnx", "one.onnx"} < names
    assert "model.onnx" not in names
    assert [command.profiles for command in commands(tmp_path / "out")] == [[], []]
    shapes = [tuple(value.shape or ()) for value in read_model(tmp_path / "out" / "one.onnx").graph.inputs]
    assert shapes == [(1, 1, 64), (1, 5, 64)]


def test_the_table_of_profiles(program, tmp_path):
    writer.write(program, tmp_path / "out", **OPTIONS)
    model, full, _one = json.loads((tmp_path / "out" / "profiles.json").read_text())["engines"]
    assert [profile["name"] for profile in model["profiles"]] == ["first", "step"]
    assert model["profiles"][1]["sizes"] == {"T": [1, 1, 1], "S": [1, 5, 5]}
    assert model["provider_options"]["trt_profile_max_shapes"].startswith("frames:1x6x64,cache:1x0x64,")
    assert full == {"model": "full.onnx", "engine": "full.engine", "profiles": [], "provider_options": {}}


def test_a_program_without_symbols_needs_no_profile(tmp_path, commands):
    program = to_onnx(lambda x: jnp.tanh(x), [(2, 3)], target="tensorrt")
    writer.write(program, tmp_path / "out")
    assert [command.profiles for command in commands(tmp_path / "out")] == [[]]


def test_the_shell_script_stops_at_the_first_error_and_runs_in_its_folder(program, tmp_path):
    writer.write(program, tmp_path / "out", variant=OPTIONS["variant"])
    path = tmp_path / "out" / "trtexec.sh"
    head, _, stops, enters, *_ = path.read_text().splitlines()
    assert (head, stops, enters) == ("#!/bin/sh", "set -e", 'cd "$(dirname "$0")"')
    assert path.stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, OptionError, "needs profiles"),
        ({"profile": ("a:T=1..2,S=0", "a:T=3,S=0")}, OptionError, "The profile 'a' is given twice"),
        ({"profile": ("a:T=1..2",)}, SymbolError, "Profile 'a': The profile says nothing of S"),
        ({"variant": ("a:T=1..2,S=0",)}, OptionError, "The variant 'a' is static: give T one size"),
        ({"variant": ("a:T=1",)}, OptionError, "leaves S open"),
        ({"variant": ("model:T=1,S=0",)}, OptionError, "No variant can be called 'model'"),
        ({"profile": "a:T=1,S=0"}, OptionError, "profile takes a sequence of texts"),
        ({"precision": "int8"}, OptionError, "no option precision"),
    ],
)
def test_wrong_options_leave_nothing_behind(program, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        writer.write(program, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_variants_need_the_function(program, tmp_path):
    with pytest.raises(OptionError, match="lowers the function anew"):
        writer.write(program.portable(), tmp_path / "out", variant=OPTIONS["variant"])


def test_a_folder_that_exists_stays(program, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SaveError, match="exists"):
        writer.write(program, tmp_path, profile=OPTIONS["profile"])
