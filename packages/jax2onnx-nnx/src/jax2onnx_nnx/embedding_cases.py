"""Cases of `embedding`."""

from __future__ import annotations

from jax2onnx_lax.nn.flax_layers import embedding_cases

from jax2onnx_nnx._trained import library

__all__ = ["cases"]

cases = embedding_cases(library)
