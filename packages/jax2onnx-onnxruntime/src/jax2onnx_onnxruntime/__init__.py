"""ONNX Runtime as a target: what its CPU kernels can do, legalisation, and running a model."""

from __future__ import annotations

from jax2onnx_onnxruntime.kernels import supports
from jax2onnx_onnxruntime.legalise import LegalisePass
from jax2onnx_onnxruntime.runner import Runner, load

__all__ = ["LegalisePass", "Runner", "load", "supports"]
__version__ = "0.1.0"
