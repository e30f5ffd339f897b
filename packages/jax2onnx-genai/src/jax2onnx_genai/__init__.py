"""Folders for onnxruntime-genai: an exported decoder with its configuration and its tokenizer."""

from __future__ import annotations

from jax2onnx_genai.folder import write

__all__ = ["write"]
__version__ = "0.1.0"
