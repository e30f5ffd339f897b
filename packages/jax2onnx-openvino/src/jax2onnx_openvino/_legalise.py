"""The pass that makes a model run on OpenVINO's CPU plugin without changing its values."""

from __future__ import annotations

from jax2onnx_graph.legalise import legalise_pass
from jax2onnx_graph.targets import Target, standard_target

from jax2onnx_openvino._support import legalisation

__all__ = ["LegalisePass"]


class LegalisePass(legalise_pass.LegalisePass):
    """Run every operator at an element type that OpenVINO computes right."""

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target, legalisation())
