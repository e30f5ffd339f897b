"""The pass that brings operators to the element types that the NPU has."""

from __future__ import annotations

from jax2onnx_graph.legalise import legalise_pass
from jax2onnx_graph.targets import Target, standard_target

from jax2onnx_qnn._support import legalisation

__all__ = ["LegalisePass"]


class LegalisePass(legalise_pass.LegalisePass):
    """Run every operator at an element type with which the NPU was measured to run it."""

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target, legalisation())
