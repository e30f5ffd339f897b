"""Keras for jax2onnx: layers and models with named weights, layers as crisp operators."""

from __future__ import annotations

from jax2onnx_keras.signature import signature

__all__ = ["signature"]

__version__ = "0.1.0"
