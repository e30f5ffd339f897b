"""`to_onnx(..., assume=[...])`: the promise reaches rules and passes, and stays with the program and its file."""

from __future__ import annotations

import re

import jax.numpy as jnp
import pytest
from jax2onnx_core import hookimpl, to_onnx
from jax2onnx_core.plugins.rules import Rules
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.metadata import read_assumptions
from jax2onnx_graph.saving.reading import read_model


class Plugin:
    """A plugin whose rule writes another operator under a promise."""

    @hookimpl
    def jax2onnx_register(self, registry):
        rules = Rules(overrides=True)

        @rules.lower("tanh")
        def tanh(ctx, x, **_):
            return ctx.op.Tanh(x) if ctx.assumes(Assumption.FINITE) else ctx.op.Neg(ctx.op.Tanh(ctx.op.Neg(x)))

        registry.add(rules)


def export(*shape, **options):
    return to_onnx(jnp.tanh, [shape], plugins=[Plugin()], **options)


def operators(program):
    return [node.op_type for node in program.model.graph]


def test_a_rule_is_told_what_is_assumed():
    assert operators(export(3)) == ["Neg", "Tanh", "Neg"]
    assert operators(export(3, assume=["finite"])) == ["Tanh"]


def test_a_specialized_program_is_lowered_under_the_same_promise():
    program = export("B", assume=[Assumption.FINITE]).specialize(B=3)
    assert operators(program) == ["Tanh"]
    assert read_assumptions(program.model) == ["finite"]


def test_the_file_says_what_is_assumed(tmp_path):
    path = export(3, assume=["finite"]).save(tmp_path / "m.onnx")
    assert read_assumptions(read_model(path)) == ["finite"]
    assert read_assumptions(export(3).model) == []


@pytest.mark.parametrize("text", [repr, lambda program: program.report()])
def test_the_report_shows_what_is_assumed(text):
    assert "assumes    finite" in text(export(3, assume=["finite"]))
    assert "assumes" not in text(export(3))


def test_the_page_shows_what_is_assumed(tmp_path):
    page = export(3, assume=["finite"]).save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "finite assumed of the numbers" in re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
