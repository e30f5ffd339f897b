"""The pass that brings operators to the element types that TensorRT has, without changing values."""

from __future__ import annotations

from jax2onnx_graph.legalise import legalise_pass
from jax2onnx_graph.targets import Target

from jax2onnx_tensorrt._table import legalisation

__all__ = ["LegalisePass"]


class LegalisePass(legalise_pass.LegalisePass):
    """Run every operator at an element type that a version of TensorRT lists for it."""

    def __init__(self, target: Target, version: str) -> None:
        super().__init__(target, legalisation(version))
