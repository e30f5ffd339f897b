"""The pass that makes a model run on ONNX Runtime's CPU kernels without changing its values."""

from __future__ import annotations

from jax2onnx_graph.legalise import legalise_pass
from jax2onnx_graph.targets import Target, standard_target

from jax2onnx_onnxruntime._kernels import NEWEST
from jax2onnx_onnxruntime._support import legalisation

__all__ = ["LegalisePass"]


class LegalisePass(legalise_pass.LegalisePass):
    """Run every operator at an element type that a version of ONNX Runtime has a kernel for."""

    def __init__(self, target: Target = standard_target, *, version: str = NEWEST) -> None:
        super().__init__(target, legalisation(version))
