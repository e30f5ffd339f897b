"""The reports of a model with what was found at its export, and measured since."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.targets import standard_target
from jax2onnx_report.findings import Findings, VerifiedOutput
from jax2onnx_report.page.page import report_page
from jax2onnx_report.reporter import ModelReporter

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
main (float[B, 3] x) => (float[B, 3] y) <float[3] w = {1, 2, 3}> { h = Mul(x, w) y = Gelu(h) }"""
FINDINGS = Findings(
    target=standard_target,
    ways={("mul", "rule"): 2, ("gelu", "decomposition"): 1, ("add", "rule"): 1},
    reasons={("dot", "integers <& more>"): 3},
    notes=["A note <for> the user."],
    not_formed=["Softmax: its axis is not known."],
)
ERROR = VerifiedOutput("y", "B = 3", 1e-7, 1.0, 1e-5, "", is_known=True)


@dataclasses.dataclass
class Measured:
    """What was measured of a model since."""

    verified: list[VerifiedOutput] = dataclasses.field(default_factory=list)
    accuracy: object | None = None
    times: dict[str, float] = dataclasses.field(default_factory=dict)
    timed_at: str = ""


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(TEXT)


REPORTER = ModelReporter(FINDINGS)


def test_a_summary_is_short_and_ends_with_the_notes(model: ir.Model) -> None:
    lines = REPORTER.summary(model, Measured()).splitlines()
    assert lines[0].startswith("ONNX program main")
    assert lines[0].endswith(", target onnx")
    assert lines[-1] == "A note <for> the user."
    assert not any("lowered by" in line for line in lines)
    assert not ModelReporter(Findings()).summary(model, Measured()).splitlines()[0].endswith("onnx")


def test_the_text_says_how_operations_were_lowered(model: ir.Model) -> None:
    lines = REPORTER.text(model, Measured()).splitlines()
    assert lines[-6:] == [
        "below opset 20 without: Gelu 1 (unnamed)",
        "lowered by rule: add 1, mul 2",
        "lowered by decomposition: gelu 1",
        "declined: dot (3×): integers <& more>",
        "Softmax: its axis is not known.",
        "A note <for> the user.",
    ]
    assert not any("below opset" in line for line in ModelReporter(Findings()).text(model, Measured()).splitlines())


def test_the_page_has_what_was_measured(model: ir.Model) -> None:
    measured = Measured([ERROR], "SNR 40 dB", {"n": 0.25}, "B = 3")
    found = dataclasses.replace(FINDINGS, verified=[ERROR], accuracy="SNR 40 dB", times={"n": 0.25}, timed_at="B = 3")
    assert REPORTER.page(model, measured) == report_page(model, found)
    assert REPORTER.page(model, Measured()) == report_page(model, FINDINGS)


def test_a_cell_of_a_notebook_is_a_table_without_scripts(model: ir.Model) -> None:
    cell = REPORTER.cell(model, Measured([ERROR], None, {"n": 0.25}, "B = 3"))
    for text in (
        "main",
        "onnx",
        "float32[B, 3]",
        "Mul 1, Gelu 1",
        "250 ms",
        "at B = 3",
        "A note &lt;for&gt; the user.",
    ):
        assert text in cell
    assert "<script" not in cell
    assert "250 ms" not in REPORTER.cell(model, Measured())


def test_a_reporter_is_pickled() -> None:
    found = pickle.loads(pickle.dumps(ModelReporter(dataclasses.replace(FINDINGS, target=None))))
    assert found == ModelReporter(dataclasses.replace(FINDINGS, target=None))
