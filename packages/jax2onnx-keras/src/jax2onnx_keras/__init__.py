"""Keras for jax2onnx: modules with named weights, layers as crisp operators."""

from __future__ import annotations

__version__ = "0.1.0"
