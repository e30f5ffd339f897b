"""Whole models, with sizes that are known at run time only, in both precisions."""

from __future__ import annotations

import jax
import keras
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_keras import signature
from jax2onnx_report.summary import operators
from keras import layers


def residual(dtype: str) -> keras.Model:
    """Two residual blocks of convolutions and batch norms."""
    x = image = keras.Input((8, 8, 3), dtype=dtype)
    for width, stride in ((4, 1), (6, 2)):
        shortcut = layers.Conv2D(width, 1, strides=stride, dtype=dtype)(x)
        x = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False, dtype=dtype)(x)
        x = layers.ReLU(dtype=dtype)(layers.BatchNormalization(dtype=dtype)(x))
        x = layers.Conv2D(width, 3, padding="same", dtype=dtype)(x)
        x = layers.ReLU(dtype=dtype)(layers.Add(dtype=dtype)([layers.BatchNormalization(dtype=dtype)(x), shortcut]))
    x = layers.GlobalAveragePooling2D(dtype=dtype)(x)
    return keras.Model(image, layers.Dense(5, dtype=dtype)(x))


def block(x: keras.KerasTensor, dtype: str, *, causal: bool) -> keras.KerasTensor:
    """A block of a transformer, normalised before its layers."""
    y = layers.LayerNormalization(dtype=dtype)(x)
    x = x + layers.MultiHeadAttention(2, 4, dropout=0.1, dtype=dtype)(y, y, use_causal_mask=causal)
    y = layers.LayerNormalization(dtype=dtype)(x)
    y = layers.Dense(8, dtype=dtype)(layers.Dense(16, activation="gelu", dtype=dtype)(y))
    return x + layers.Dropout(0.1, dtype=dtype)(y)


def vision(dtype: str) -> keras.Model:
    """A vision transformer on patches of four pixels."""
    image = keras.Input((8, 8, 3), dtype=dtype)
    x = layers.Reshape((4, 8), dtype=dtype)(layers.Conv2D(8, 4, strides=4, dtype=dtype)(image))
    x = block(x, dtype, causal=False)
    return keras.Model(image, layers.Dense(5, dtype=dtype)(layers.GlobalAveragePooling1D(dtype=dtype)(x)))


def decoder(dtype: str) -> keras.Model:
    """A language model that scores by its own table."""
    tokens = keras.Input((None,), dtype="int32")
    table = layers.ReversibleEmbedding(11, 8, dtype=dtype)
    x = block(table(tokens), dtype, causal=True)
    return keras.Model(tokens, table(layers.RMSNormalization(dtype=dtype)(x), reverse=True))


def tagger(dtype: str) -> keras.Model:
    """Two directions over a sequence."""
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(11, 8, dtype=dtype)(tokens)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True, dtype=dtype), dtype=dtype)(x)
    return keras.Model(tokens, layers.TimeDistributed(layers.Dense(3, dtype=dtype), dtype=dtype)(x))


MODELS = {
    residual: {"Conv": 6, "Relu": 4, "Add": 3, "MatMul": 1},
    vision: {"Conv": 1, "LayerNormalization": 2, "Attention": 1, "Gelu": 1, "MatMul": 7},
    decoder: {"LayerNormalization": 2, "RMSNormalization": 1, "Attention": 1, "Gelu": 1, "Gemm": 1, "MatMul": 6},
    tagger: {"LSTM": 1, "Scan": 1, "If": 1, "MatMul": 1},
}


def check(model: keras.Model, program: OnnxProgram, batch: int, length: int, rtol: float) -> None:
    rng = np.random.default_rng(batch)
    (spec,) = model.inputs
    shape = [batch, *(length if d is None else d for d in spec.shape[1:])]
    x = (
        rng.integers(0, 11, shape).astype(np.int32)
        if spec.dtype == "int32"
        else rng.normal(size=shape).astype(spec.dtype)
    )
    np.testing.assert_allclose(program(x), jax.jit(model)(x), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("make", MODELS)
def test_model_in_single_precision(make):
    model = make("float32")
    program = to_onnx(model, **signature(model))
    check(model, program, 3, 5, 1e-4)
    check(model, program, 1, 7, 1e-4)
    counts = operators(program.model)
    assert {name: counts[name] for name in MODELS[make]} == MODELS[make]
    paths = {variable.path for variable in model.variables if len(variable.shape) == 2 and "lstm" not in variable.path}
    assert paths <= set(program.model.graph.initializers)


@pytest.mark.parametrize("make", MODELS)
def test_model_in_double_precision(make):
    with jax.enable_x64(True):
        model = make("float64")
        program = to_onnx(model, **signature(model))
        check(model, program, 2, 4, 1e-5)


def test_one_of_the_applications():
    model = keras.applications.MobileNet(weights=None, input_shape=(64, 64, 3), alpha=0.25, classes=4)
    program = to_onnx(model, **signature(model))
    x = np.random.default_rng(0).uniform(0, 1, (2, 64, 64, 3)).astype(np.float32)
    np.testing.assert_allclose(program(x), jax.jit(model)(x), rtol=1e-4, atol=1e-6)
    counts = operators(program.model)
    assert counts["Transpose"] <= 2
    assert not {"Mul", "Sub", "Div"} & counts.keys()
