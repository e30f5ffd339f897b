"""`OnnxRuntime`: the target, which answers from measured tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.targets import PassFactory, Property, Target, choose_version

__all__ = ["OnnxRuntime"]


class OnnxRuntime(Target):
    """ONNX Runtime with its CPU provider, the default target of `to_onnx`.

    The tables and passes come at first use, so that registering the target is cheap.
    """

    name = "onnxruntime"
    is_default = True

    def __init__(self, version: str = "", notes: Sequence[str] = ()) -> None:
        self._version, self.notes = version, notes
        self._supported: dict[tuple[str, np.dtype[Any], int], bool] = {}
        if version:
            from jax2onnx_onnxruntime._kernels import measured_opsets

            self.name, self.is_default, self.opsets = f"{type(self).name}=={version}", False, measured_opsets(version)

    @property
    def versions(self) -> Sequence[str]:
        """The versions that were measured, oldest first."""
        from jax2onnx_onnxruntime._kernels import measured_versions

        return () if self._version else tuple(measured_versions())

    def of_version(self, version: str) -> OnnxRuntime:
        """The target for a version such as "1.18" or "1.18.1": by the newest measurements that are not of a newer one.

        Raises:
          OptionError: it is older than all that were measured.
        """
        from jax2onnx_onnxruntime._kernels import measured_versions

        known = measured_versions()
        chosen = choose_version("ONNX Runtime", version, list(known))
        return OnnxRuntime(known[chosen.version], chosen.notes)

    def installed(self) -> OnnxRuntime:
        """The target for the installed version, and for the oldest that was measured where that is older still."""
        from jax2onnx_onnxruntime._compat import installed_version
        from jax2onnx_onnxruntime._kernels import measured_versions

        version = installed_version()
        if self._version or version is None:
            return self
        try:
            return self.of_version(version)
        except OptionError as error:
            return OnnxRuntime(next(iter(measured_versions())), (str(error),))

    def supports(self, op_type: str, dtype: np.dtype[Any], opset: int) -> bool:
        """Whether the operator is computed exactly on this element type, natively or after legalisation."""
        asked = op_type, dtype, opset
        if asked not in self._supported:  # of each node that is made
            self._supported[asked] = self._supports(*asked)
        return self._supported[asked]

    def _supports(self, op_type: str, dtype: np.dtype[Any], opset: int) -> bool:
        from jax2onnx_onnxruntime._contrib import DOMAIN, runs_contrib
        from jax2onnx_onnxruntime._support import supports

        if op_type.startswith(DOMAIN):
            return runs_contrib(op_type, dtype, self._version)
        return supports(op_type, dtype, opset, self._version)

    def runs_as_well(self, node: ir.Node, opset: int, lower: int) -> bool:
        """Whether there is a kernel for a node at a lower opset, if there is one at this opset."""
        from jax2onnx_onnxruntime._support import runs_as_well

        return runs_as_well(node, opset, lower, self._version)

    def guarantees(self, op_type: str, dtype: np.dtype[Any], kept: Property) -> bool:
        """Whether the kernel that computes the operator keeps the property; see `guarantees.json`."""
        from jax2onnx_onnxruntime._guarantees import guarantees

        return guarantees(op_type, dtype, kept, self._version)

    def prefers(self, *forms: Form) -> Form:
        """The fastest of several forms of equal meaning, by the times in `jax2onnx_onnxruntime.forms`."""
        from jax2onnx_onnxruntime.forms import preferred

        return preferred(forms)

    def threshold(self, threshold: Threshold) -> int:
        """The size from which a form pays; see `jax2onnx_onnxruntime.forms`."""
        from jax2onnx_onnxruntime.forms import THRESHOLDS

        return THRESHOLDS[threshold]

    def passes(self) -> Sequence[PassFactory]:
        """Passes in their order: steps of recurrences that are not finite, repairs of kernels, forms of attention with their masks, selections without branches, guards of empty operands, legalisation, exact Sigmoids and long sums, then those that keep the runtime's own optimiser from mistakes."""
        from jax2onnx_graph.legalise.empty_operands import EmptyOperandsPass
        from jax2onnx_graph.legalise.finite_recurrences import FiniteRecurrencesPass
        from jax2onnx_graph.legalise.fully_masked_rows import FullyMaskedRowsPass
        from jax2onnx_graph.passes.structural.fold_flags import FoldFlags

        from jax2onnx_onnxruntime._attention_forms import AttentionFormsPass
        from jax2onnx_onnxruntime._fusions import TransposedProductsPass
        from jax2onnx_onnxruntime._legalise import LegalisePass
        from jax2onnx_onnxruntime._long_sums import LongSumsPass
        from jax2onnx_onnxruntime._neutral_constants import NeutralConstantsPass
        from jax2onnx_onnxruntime._partly_filled import PartlyFilledPass
        from jax2onnx_onnxruntime._repairs import RepairsPass
        from jax2onnx_onnxruntime._scalar_fusions import ScalarFusionsPass
        from jax2onnx_onnxruntime._selections import SelectionsPass
        from jax2onnx_onnxruntime._small_probabilities import SmallProbabilitiesPass
        from jax2onnx_onnxruntime._transposes import TransposesPass

        repairs = [RepairsPass] if self._version else []
        legalise = partial(LegalisePass, version=self._version)
        attention = (AttentionFormsPass, PartlyFilledPass, FoldFlags)
        return (
            FiniteRecurrencesPass,
            *repairs,
            FullyMaskedRowsPass,
            *attention,
            SelectionsPass,
            EmptyOperandsPass,
            legalise,
            SmallProbabilitiesPass,
            LongSumsPass,
            TransposedProductsPass,
            TransposesPass,
            NeutralConstantsPass,
            ScalarFusionsPass,
        )

    def limitations(self) -> Sequence[Limitation]:
        """Limitations of the kernels of the version, see `jax2onnx_onnxruntime.limitations`."""
        from jax2onnx_onnxruntime.limitations import limitations

        return limitations(self._version)
