"""Folders for onnxruntime-genai: exported decoders, and encoders with decoders, with their configuration and tokenizer."""

from __future__ import annotations

from jax2onnx_genai.folder import write
from jax2onnx_genai.speech import write_speech

__all__ = ["write", "write_speech"]
__version__ = "0.1.0"
