"""`Qnn`: the target, which answers from what was measured of the NPU's library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.forms import Form
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.targets import PassFactory, Property, Target, choose_version

__all__ = ["Qnn"]

_PREFERRED = (Form.RARE_ALWAYS, Form.PRODUCT_OF_16_BITS)


class Qnn(Target):
    """Qualcomm's NPU (HTP) by ONNX Runtime's QNN provider: models of static sizes, all of which run on it.

    It computes floats in half precision, or quantised, and has neither NaN nor infinities.
    The table and the passes come at first use, so that registering the target is cheap.
    """

    name = "qnn"
    opsets = range(18, 24)
    ir_version = 10
    runs_functions = False
    runs_sizes_from_data = False
    rounding = 0.025

    def __init__(self, notes: Sequence[str] = ()) -> None:
        self.notes = notes

    @property
    def versions(self) -> Sequence[str]:
        """The version of the provider that was measured."""
        from jax2onnx_qnn._support import measured_version

        return (measured_version(),)

    def of_version(self, version: str) -> Qnn:
        """The target for a version of the provider such as "2.7", by the measurements of the only one that was measured.

        Raises:
          OptionError: it is older than that.
        """
        return Qnn(choose_version("the QNN provider", version, self.versions).notes)

    def supports(self, op_type: str, dtype: Dtype, opset: int) -> bool:
        """Whether the operator runs on the NPU with this element type, natively or after legalisation."""
        from jax2onnx_qnn._support import supports

        return supports(op_type, dtype, opset)

    def computes(self, node: ir.Node, opset: int) -> bool:
        """Whether the NPU runs a node at its element type and with its attributes."""
        from jax2onnx_qnn._restrictions import violations

        return super().computes(node, opset) and not any(violations(node))

    def guarantees(self, op_type: str, dtype: Dtype, kept: Property) -> bool:
        """True: whatever else were written, the NPU has neither NaN nor infinities, and its integers saturate."""
        return True

    def prefers(self, *forms: Form) -> Form:
        """Forms without a branch on data, products of integers rather than of floats; else the first."""
        return next((form for form in _PREFERRED if form in forms), forms[0])

    def passes(self) -> Sequence[PassFactory]:
        """Passes in their order: element types, forms, and the refusal of what does not run wholly on the NPU."""
        from jax2onnx_graph.legalise.legalise_pass import LegalisePass
        from jax2onnx_graph.passes.structural.fold_casts import FoldCasts

        from jax2onnx_qnn._forms import FormsPass
        from jax2onnx_qnn._refusals import RefusalsPass
        from jax2onnx_qnn._support import legalisation

        return (partial(LegalisePass, legalisation=legalisation()), FoldCasts, FormsPass, RefusalsPass)

    def limitations(self) -> Sequence[Limitation]:
        """Limitations of the NPU and its library, see `jax2onnx_qnn.limitations`."""
        from jax2onnx_qnn.limitations import LIMITATIONS

        return LIMITATIONS
