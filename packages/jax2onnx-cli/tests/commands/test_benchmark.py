from __future__ import annotations

import os

import jax
import pytest


def test_an_object_in_jax_and_in_the_runtimes(jax2onnx, directory):
    pytest.importorskip("openvino")
    arguments = ("-i", "f32[B, 64]", "--sizes", "B=1,3", "--seconds", "0", "--plot", "times.svg", "--threads", "1")
    outcome = jax2onnx("benchmark", "models.py:dense", *arguments, "--json")
    assert outcome.code == 0
    rows = outcome.data["measurements"]
    assert [row["where"] for row in rows] == ["B = 1"] * 3 + ["B = 3"] * 3
    names = [row["contender"] for row in rows[:3]]
    assert names[0] == f"JAX {jax.__version__}"
    assert [name.rpartition(" ")[0] for name in names[1:]] == ["ONNX Runtime", "OpenVINO"]
    assert all(row["runs"] >= 9 and row["median"] > 0 for row in rows)
    assert set(outcome.data["threads"].values()) == {"1"} | {outcome.data["threads"][names[0]]}
    assert outcome.data["threads"][names[0]].startswith("1")
    assert "NPROC" not in os.environ
    assert "models.py:dense" in (directory / "times.svg").read_text()


def test_a_file_is_measured_without_jax(jax2onnx, directory):
    assert jax2onnx("export", "models.py:dense", "-i", "f32[B, 64]", "-q").code == 0
    outcome = jax2onnx(
        "benchmark",
        "dense.onnx",
        "--sizes",
        "B=2",
        "--seconds",
        "0",
        "--runtimes",
        "onnxruntime,onnx",
        "--plot",
        "t.html",
    )
    assert outcome.code == 0
    assert "JAX is not measured: dense.onnx holds no Python" in outcome.out
    assert "results compared with those of ONNX Runtime" in outcome.out
    assert "onnx.reference" in (directory / "t.html").read_text()


def test_a_row_says_that_its_runtime_stands_in_for_another(jax2onnx):
    arguments = ("-i", "f32[B, 64]", "--sizes", "B=1", "--seconds", "0", "--runtimes", "tensorrt")
    assert "in the place of TensorRT" in jax2onnx("benchmark", "models.py:dense", *arguments).out


def test_a_missing_runtime_is_named_with_the_line_that_installs_it(jax2onnx, monkeypatch):
    from jax2onnx_core.plugins.discovery import installed_plugins

    monkeypatch.delitem(installed_plugins().registry.runtimes, "openvino", raising=False)
    outcome = jax2onnx("benchmark", "models.py:dense", "-i", "f32[B, 64]", "--sizes", "B=1", "--seconds", "0")
    assert "openvino is not measured: it is not installed, pip install 'jax2onnx-openvino[openvino]'" in outcome.out
    assert outcome.code == 0


def test_a_wrong_result_is_a_failed_check(jax2onnx):
    outcome = jax2onnx(
        # Of 4,096 elements some are rounded in another way on every processor.
        "benchmark", "models.py:dense", "-i", "f32[B, 64]", "--sizes", "B=64", "--seconds", "0", "--rtol", "0", "--atol", "1e-12",
        "--runtimes", "onnxruntime",
    )  # fmt: skip
    assert outcome.code == 1
    assert "not measured: output 'output' is wrong in" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--plot", "times.png"), "a chart is an .svg or an .html file"),
        (("--plot", "nowhere/times.svg"), "there is no directory nowhere"),
        (("--runtimes", "onyx"), "no installed plugin runs models for it; there are"),
        (("--runtimes", "onnxruntime,web"), "web runs in the same runtime as another of these"),
        (("--threads", "0"), "Invalid value for '--threads'"),
        (("--sizes", "B=1,T"), "'T': write a symbol"),
        (("--sizes", "8"), "'8': write a symbol"),
        (("--sizes", "T=1"), "no input has T"),
    ],
)
def test_options_that_cannot_be_used(refused, arguments, why):
    assert why in refused("benchmark", "models.py:dense", "-i", "f32[B, 64]", *arguments)


def test_a_file_takes_no_options_of_an_export(refused, jax2onnx):
    jax2onnx("export", "models.py:dense", "-i", "f32[B, 64]", "-q")
    for option in (("-i", "f32[B, 64]"), ("--target", "onnx"), ("--opset", "20"), ("--states", "0=0")):
        for command in ("benchmark", "report"):
            assert "with inputs of its own" in refused(command, "dense.onnx", *option)
    for flag in ("--verify", "--profile"):
        assert "are for an export" in refused("report", "dense.onnx", flag)
    assert "nowhere.onnx" in refused("benchmark", "nowhere.onnx")
