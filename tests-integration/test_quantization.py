"""Six kinds of models in every mode of quantisation: each converts, loads and runs, with an error that fits the mode."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import get_args

import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.labels import count_labels
from jax2onnx_runtime.quantization import Mode

from examples.quantized_models import EXAMPLES, OUTLIERS

#: The least ratio of signal to noise in decibels, for untrained weights, which are harder than trained ones.
LEAST = {
    "int4": 8,
    "int4_qdq": 8,
    "float8": 17,
    "int8": 28,
    "dynamic_int8": 20,
    "static_int8": 18,
    "float16": 50,
    "bfloat16": 32,
}


@functools.cache
def exported(name: str) -> OnnxProgram:
    example = EXAMPLES[name]
    return to_onnx(example.make(), example.inputs)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_model_is_quantised(name: str, mode: Mode, tmp_path: Path) -> None:
    program, example = exported(name), EXAMPLES[name]
    calibration = example.arguments(8, seed=1) if mode == "static_int8" else None
    quantised = program.quantize(mode, calibration=calibration)
    found = quantised.accuracy(example.arguments(4, seed=2))
    assert found.runs == 4
    assert found.worst.snr > LEAST[mode]
    path = quantised.save(tmp_path / "model.onnx")
    onnx.checker.check_model(onnx.load(path), full_check=mode.endswith("int8"))
    assert count_labels(quantised.model).share == 1


@pytest.mark.parametrize("mode", ["int4", "float16"])
def test_a_tied_head_leaves_the_table_to_the_embedding(mode: Mode) -> None:
    program = exported("GPT, tied head")
    table = tensor(program.model.graph.initializers["tokens.embedding"])
    assert table is not None
    gathers = [node for node in program.quantize(mode).model.graph if node.op_type == "Gather"]
    (kept,) = (
        found for node in gathers if (found := tensor(node.inputs[0])) is not None and found.shape == table.shape
    )
    np.testing.assert_allclose(kept.astype(np.float32), table, rtol=1e-3, atol=1e-6)


def tensor(value: ir.Value | None) -> np.ndarray | None:
    """The array of a weight."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def test_the_losses_of_both_programs_are_reported() -> None:
    program, example = exported("GPT, tied head"), EXAMPLES["GPT, tied head"]

    def surprise(logits: np.ndarray, tokens: np.ndarray) -> float:
        shifted = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
        chances = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return -float(np.take_along_axis(chances, tokens[:, 1:, None], axis=-1).mean())

    found = program.quantize("int8").accuracy(example.arguments(2), loss=surprise)
    assert found.loss == pytest.approx(found.original_loss, abs=0.1)
    assert "loss" in str(found)


@pytest.mark.parametrize("mode", ["float16", "bfloat16"])
@pytest.mark.parametrize("keep_io_types", [True, False])
def test_a_session_in_half_precision_takes_float32(mode: Mode, keep_io_types: bool) -> None:
    attention = nnx.MultiHeadAttention(4, 16, decode=True, rngs=nnx.Rngs(0))
    attention.init_cache((1, 8, 16), dtype=jnp.float32)
    program = to_onnx(attention, [(1, 1, 16)], states=nnx.Cache)
    half = program.quantize(mode, keep_io_types=keep_io_types)
    full, session = program.session(), half.session()
    for x in np.random.default_rng(0).standard_normal((3, 1, 1, 16), np.float32):
        np.testing.assert_allclose(session.step(x).astype(np.float32), full.step(x), atol=0.05)
    assert session.state["state.cached_key"].dtype == ("float32" if keep_io_types else mode)


def test_a_tolerance_mends_a_model_with_outliers() -> None:
    program, calls = to_onnx(OUTLIERS.make(), OUTLIERS.inputs), OUTLIERS.arguments(4, seed=1)
    few, mixed = program.quantize("int4"), program.quantize("int4", tolerance=0.1, calibration=calls)
    others = OUTLIERS.arguments(4, seed=2)
    assert (few.accuracy(others).worst.snr < 8, mixed.accuracy(others).worst.snr > 16) == (True, True)
    assert mixed.bits is not None
    assert mixed.bits.bytes < 0.8 * program.quantize("int8", tolerance=0.1, calibration=calls).bits.bytes
