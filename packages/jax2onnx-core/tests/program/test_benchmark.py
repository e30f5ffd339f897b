"""`OnnxProgram.benchmark`: the model beside the function under `jax.jit`."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.plugins.errors import OptionError


def cube(x, *, scale):
    return {"y": (x**3 * scale).sum(axis=1), "n": jnp.int32(x.shape[0])}


@pytest.fixture(scope="module")
def program():
    return to_onnx(cube, [("B", 4)], kwargs={"scale": ()})


def test_both_are_measured_at_each_size(program):
    found = program.benchmark(sizes=[{"B": 1}, {"B": 5}], seconds=0)
    jax_, runtime = f"JAX {jax.__version__}", program.runtime.title
    assert [(one.contender, one.where) for one in found.measurements] == [
        (jax_, "B = 1"), (runtime, "B = 1"), (jax_, "B = 5"), (runtime, "B = 5"),
    ]  # fmt: skip
    assert found.is_right
    assert all(one.runs >= 9 and 0 < one.least <= one.median for one in found.measurements)


def test_a_model_that_is_wrong_is_not_measured(program):
    other = to_onnx(lambda x, *, scale: cube(x, scale=-scale), [("B", 4)], kwargs={"scale": ()})
    found = program.benchmark(beside={"other": other}, sizes=[{"B": 2}], seconds=0)
    first, second, third = found.measurements
    assert (first.problem, second.problem) == ("", "")
    assert "output 'y' is wrong in 2 of 2 elements" in third.problem
    assert not found.is_right


def test_64_bits_and_models_in_fewer_bits():
    weight = np.linspace(-1, 1, 64 * 64).reshape(64, 64)
    program = to_onnx(lambda x: x @ weight, [("B", 64)], x64=True)
    found = program.benchmark(sizes=[{"B": 3}], seconds=0)
    assert found.is_right
    assert found.measurements[1].difference < 1e-9
    program = to_onnx(lambda x: x @ weight.astype(np.float32), [("B", 64)])
    found = program.benchmark(beside={"int8": program.quantize("int8")}, sizes=[{"B": 3}], seconds=0, rtol=0.1)
    assert found.measurements[2].contender == "int8"
    assert found.measurements[2].difference > 0
    assert found.is_right


def test_threads_are_told(program, monkeypatch):
    monkeypatch.setenv("NPROC", "1")
    monkeypatch.setenv("XLA_FLAGS", "--xla_fast=0")
    found = program.benchmark(sizes=[{"B": 1}], seconds=0, threads=1)
    assert [*found.threads.values()] == ["1 with XLA_FLAGS=--xla_fast=0", "1"]


def test_a_pickled_copy_and_options_of_a_wrong_type(program):
    with pytest.raises(OptionError, match="beside maps names to programs"):
        program.benchmark(beside=[program])
    with pytest.raises(OptionError, match="rtol is a number"):
        program.benchmark(rtol="1e-3")
    with pytest.raises(OptionError, match="seconds='1'"):
        dataclasses.replace(program).benchmark(seconds="1")
