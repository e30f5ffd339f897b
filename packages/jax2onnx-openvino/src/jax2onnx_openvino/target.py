"""`OpenVino`: the target, which answers from measured tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.targets import PassFactory, Property, Target, choose_version

__all__ = ["OpenVino"]


class OpenVino(Target):
    """OpenVINO with its CPU plugin, which computes with float32 and with the bits of int32.

    The tables and passes come at first use, so that registering the target is cheap.
    """

    name = "openvino"
    opsets = range(18, 24)
    ir_version = 10
    runs_functions = False

    def __init__(self, notes: Sequence[str] = ()) -> None:
        self.notes = notes

    @property
    def versions(self) -> Sequence[str]:
        """The version that was measured."""
        from jax2onnx_openvino._support import measured

        return (".".join(measured("kernels")["openvino"].split(".")[:2]),)

    def of_version(self, version: str) -> OpenVino:
        """The target for a version such as "2026.4", by the measurements of the only one that was measured.

        Raises:
          OptionError: it is older than that.
        """
        return OpenVino(choose_version("OpenVINO", version, self.versions).notes)

    def supports(self, op_type: str, dtype: Dtype, opset: int) -> bool:
        """Whether the operator is computed exactly on this element type, natively or after legalisation."""
        from jax2onnx_openvino._support import supports

        return supports(op_type, dtype, opset)

    def guarantees(self, op_type: str, dtype: Dtype, kept: Property) -> bool:
        """Whether the kernel or the decomposition of the operator keeps the property; see `guarantees.json`."""
        from jax2onnx_openvino._support import guarantees

        return guarantees(op_type, dtype, kept)

    def passes(self) -> Sequence[PassFactory]:
        """Passes in their order: repairs, integers, the form of loops and branches, and the refusal of operators without a right form."""
        from jax2onnx_graph.legalise.finite_recurrences import FiniteRecurrencesPass
        from jax2onnx_graph.legalise.legalise_pass import LegalisePass

        from jax2onnx_openvino._branch_results import BranchResultsPass
        from jax2onnx_openvino._casts import CastsPass
        from jax2onnx_openvino._closed_scans import ClosedScansPass
        from jax2onnx_openvino._refusals import RefusalsPass
        from jax2onnx_openvino._repairs import RepairsPass
        from jax2onnx_openvino._stable_sorts import StableSortsPass
        from jax2onnx_openvino._support import legalisation
        from jax2onnx_openvino._unsigned import UnsignedPass

        legalise = partial(LegalisePass, legalisation=legalisation())
        return (
            UnsignedPass, StableSortsPass, FiniteRecurrencesPass, RepairsPass, legalise, CastsPass, ClosedScansPass, BranchResultsPass,
            RefusalsPass,
        )  # fmt: skip

    def limitations(self) -> Sequence[Limitation]:
        """Limitations of the plugin, see `jax2onnx_openvino.limitations`."""
        from jax2onnx_openvino.limitations import LIMITATIONS

        return LIMITATIONS
