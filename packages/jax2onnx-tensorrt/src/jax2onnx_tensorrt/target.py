"""`TensorRt`: the target, which answers from the operator table of TensorRT's ONNX parser."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.forms import Form
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.targets import PassFactory, Property, Target, choose_version

__all__ = ["TensorRt"]

_NEWEST = "10.15"
_PREFERRED = (Form.ATTENTION_4D, Form.GELU_BY_QUOTIENT, Form.RARE_ALWAYS, Form.SYMMETRIC_PRODUCT)


class TensorRt(Target):
    """TensorRT, by its ONNX parser: operators, element types and restrictions are those that its documentation lists.

    Nothing of it is measured: it needs a GPU. `target="tensorrt"` is for the newest table that is known, that of 10.15;
    `target="tensorrt==10.3"` for the newest one that is not newer than the version. The table comes at first use, so that
    registering the target is cheap.
    """

    name = "tensorrt"
    opsets = range(18, 25)
    ir_version = 12
    runs_functions = False
    runs_sizes_from_data = False

    def __init__(self, version: str = "") -> None:
        self._version = version or _NEWEST
        if version:
            from jax2onnx_tensorrt._table import ir_version, opsets, versions

            chosen = choose_version("TensorRT", version, versions())
            self._version, self.notes = chosen.version, chosen.notes
            self.name = f"{type(self).name}=={version}"
            self.opsets, self.ir_version = opsets(self._version), ir_version(self._version)

    @property
    def versions(self) -> Sequence[str]:
        """The versions whose tables are known, oldest first."""
        from jax2onnx_tensorrt._table import versions

        return versions() if self.name == type(self).name else ()

    def of_version(self, version: str) -> TensorRt:
        """The target for a version such as "10.3": by the newest table that is not newer.

        Raises:
          OptionError: it is older than all tables.
        """
        return TensorRt(version)

    def supports(self, op_type: str, dtype: Dtype, opset: int) -> bool:
        """Whether the table lists the operator for this element type, or operators that stand for it."""
        from jax2onnx_tensorrt._table import supports

        return supports(op_type, dtype, opset, self._version)

    def computes(self, node: ir.Node, opset: int) -> bool:
        """Whether the table lists the operator of a node for its element type, and no attribute rules it out."""
        from jax2onnx_tensorrt._restrictions import has_other_form

        return not has_other_form(node) and super().computes(node, opset)

    def guarantees(self, op_type: str, dtype: Dtype, kept: Property) -> bool:
        """True except for masks of capped logits, for which TensorRT has no Attention; its treatment of NaN and infinities is not documented."""
        return (op_type, kept) != ("Attention", "softcap_mask")

    def prefers(self, *forms: Form) -> Form:
        """Forms of the operators that the tables list and TensorRT fuses, and none with a branch on data; else the first."""
        return next((form for form in _PREFERRED if form in forms), forms[0])

    def passes(self) -> Sequence[PassFactory]:
        """Passes in their order: attention, pooling, element types, and the refusal of operators that the table lacks."""
        from jax2onnx_graph.legalise.legalise_pass import LegalisePass
        from jax2onnx_graph.passes.structural.fold_casts import FoldCasts

        from jax2onnx_tensorrt._attention import AttentionPass
        from jax2onnx_tensorrt._axes import AxesPass
        from jax2onnx_tensorrt._refusals import RefusalsPass
        from jax2onnx_tensorrt._scans import ScansPass
        from jax2onnx_tensorrt._table import legalisation

        legalise = partial(LegalisePass, legalisation=legalisation(self._version))
        refuse = partial(RefusalsPass, version=self._version)
        return AttentionPass, AxesPass, ScansPass, legalise, FoldCasts, refuse

    def limitations(self) -> Sequence[Limitation]:
        """Limitations of TensorRT by its documentation, see `jax2onnx_tensorrt.limitations`."""
        from jax2onnx_tensorrt.limitations import LIMITATIONS

        return LIMITATIONS
