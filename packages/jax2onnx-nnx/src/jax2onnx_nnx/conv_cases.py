"""Cases of convolutions."""

from __future__ import annotations

from jax2onnx_lax.nn.flax_layers import conv_cases

from jax2onnx_nnx._trained import library

__all__ = ["cases"]

cases = conv_cases(library)
