"""`ModelReporter`: the reports of a model with what was found at its export, which can be pickled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from jax2onnx_graph import ir

from jax2onnx_report.findings import Findings, VerifiedOutput
from jax2onnx_report.page.cell import notebook_cell
from jax2onnx_report.page.page import report_page
from jax2onnx_report.text import report_text, summary_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Measured", "ModelReporter"]


class Measured(Protocol):
    """The measurements of a model since its export."""

    @property
    def verified(self) -> Sequence[DataclassInstance]:
        """The errors that verification found, with the fields of a `VerifiedOutput`."""
        ...

    @property
    def accuracy(self) -> object | None:
        """The accuracy in fewer bits, whose text the report shows."""
        ...

    @property
    def times(self) -> Mapping[str, float]:
        """Seconds by the names of nodes."""
        ...

    @property
    def timed_at(self) -> str:
        """The sizes at which they were measured: "B = 3"."""
        ...


@dataclasses.dataclass(frozen=True)
class ModelReporter:
    """The reports of a model.

    Attributes:
      findings: what was found at the export.
    """

    findings: Findings

    def summary(self, model: ir.Model, measured: Measured) -> str:
        """The summary, as text."""
        return summary_text(model, self._with(measured))

    def text(self, model: ir.Model, measured: Measured) -> str:
        """The report, as text."""
        return report_text(model, self._with(measured))

    def page(self, model: ir.Model, measured: Measured) -> str:
        """The report, as an HTML page."""
        return report_page(model, self._with(measured))

    def cell(self, model: ir.Model, measured: Measured) -> str:
        """The essence of the report, as HTML for a cell of a notebook."""
        return notebook_cell(model, self._with(measured))

    def _with(self, measured: Measured) -> Findings:
        verified = [VerifiedOutput(**dataclasses.asdict(error)) for error in measured.verified]
        accuracy = "" if measured.accuracy is None else str(measured.accuracy)
        return dataclasses.replace(
            self.findings, verified=verified, accuracy=accuracy, times=measured.times, timed_at=measured.timed_at
        )
