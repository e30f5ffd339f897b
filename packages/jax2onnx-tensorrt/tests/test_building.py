"""Engines of TensorRT for RTX, whose builder needs no GPU; run where it is installed, as by `nox -s tensorrt`."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import TargetError
from jax2onnx_tensorrt import engine_profiles
from jax2onnx_tensorrt.building import MODULES, BuildError, build, tensorrt
from jax2onnx_tensorrt.writer import writer


def is_installed() -> bool:
    return any(importlib.util.find_spec(name) is not None for name in MODULES)


needs_builder = pytest.mark.skipif(not is_installed(), reason="the builder is installed by nox -s tensorrt alone")


@needs_builder
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_built_for_a_range_of_lengths(dtype, is_causal):
    def attend(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=is_causal)

    program = to_onnx(attend, [((2, "T", 4, 16), dtype)] * 3, target="tensorrt")
    profiles = engine_profiles(program, {"all": {"T": (1, 4, 8)}})
    shapes = {name: dict(profile.shapes) for name, profile in profiles.shapes.items()}
    assert build(tensorrt(), program.model_proto.SerializeToString(), shapes)


@needs_builder
def test_an_input_that_decides_positions_may_be_any_number():
    def window(x, start):
        return jax.lax.dynamic_slice_in_dim(x, start, 3)

    program = to_onnx(window, [(7, 4), ((), jnp.int32)], target="tensorrt")
    assert build(tensorrt(), program.model_proto.SerializeToString(), {})


@needs_builder
@pytest.mark.parametrize("mode", ["static_int8", "int4_qdq", "float8", "float16", "bfloat16"])
def test_models_in_fewer_bits_are_built(mode):
    random = np.random.default_rng(0)
    filters, weight, x = (
        random.standard_normal(shape).astype(np.float32) for shape in ((4, 3, 3, 3), (4, 8), (2, 3, 8, 8))
    )

    def network(x):
        features = jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME") + np.ones((4, 1, 1), np.float32)
        return jax.nn.relu(features).mean((2, 3)) @ weight + np.ones(8, np.float32)

    calibration = [(abs(x),)] if mode == "static_int8" else None
    program = to_onnx(network, [x], target="tensorrt").quantize(mode, calibration=calibration)
    assert build(tensorrt(), program.model_proto.SerializeToString(), {})


@needs_builder
def test_what_is_not_parsed_is_said():
    program = to_onnx(lambda x: jnp.fft.fft(x).real, [(8,)], target="onnx", opset=20)
    with pytest.raises(BuildError, match="does not parse the model"):
        build(tensorrt(), program.model_proto.SerializeToString(), {})


@needs_builder
def test_a_folder_gets_its_engines(tmp_path):
    program = to_onnx(lambda x: jnp.tanh(x), [("B", 3)], target="tensorrt")
    files = writer.write(program, tmp_path / "out", profile=("all:B=1..4",), build=True)
    assert "model.engine" in [path.name for path in files]


@pytest.mark.skipif(is_installed(), reason="the builder is installed")
def test_without_a_builder_no_folder_is_written(tmp_path):
    program = to_onnx(lambda x: jnp.tanh(x), [(3,)], target="tensorrt")
    with pytest.raises(TargetError, match="pip install tensorrt-rtx-cu13-libs"):
        writer.write(program, tmp_path / "out", build=True)
    assert not (tmp_path / "out").exists()
