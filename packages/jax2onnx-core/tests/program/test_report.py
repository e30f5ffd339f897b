"""The report of a program: its page, with the results of earlier verifications and profiles."""

from __future__ import annotations

import re
from pathlib import Path

import jax.numpy as jnp
import jax2onnx_core
import numpy as np
import pytest
from jax2onnx_core import hookimpl, to_onnx
from jax2onnx_core.plugins.errors import SaveError, VerificationError
from jax2onnx_core.plugins.rules import Rules

WEIGHT = jnp.ones((32, 32), jnp.float32)


def model(x):
    return jnp.tanh(x @ WEIGHT)


@pytest.fixture
def program():
    return to_onnx(model, [("B", 32)], provenance=True)


def text_of(path):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8").split("</style>")[1]))


def test_the_page_names_the_lines_of_the_function(program, tmp_path):
    path = program.save_report(tmp_path / "report.html")
    assert path == tmp_path / "report.html"
    assert re.search(r"test_report\.py:\d+ \(model\) 2 MatMul, Tanh 4\.1 kB", text_of(path))
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_what_verification_found_is_kept_and_shown(program, tmp_path):
    worst = program.verify(sizes=[{"B": 1}, {"B": 4}])
    assert [error.where for error in program.verified] == ["B = 1", "B = 4"]
    assert worst == max(error.largest for error in program.verified)
    assert "verified equal in 2 runs" in text_of(program.save_report(tmp_path / "report.html"))
    program.verify(sizes=[{"B": 2}])
    assert [error.where for error in program.verified] == ["B = 2"]


def test_outputs_without_finite_numbers_are_not_shown_as_verified(tmp_path):
    weight = np.full((4, 2), np.nan, np.float32)
    broken = to_onnx(lambda x: (x @ weight, x), [("B", 4)])
    broken.verify(sizes=[{"B": 1}, {"B": 4}])
    assert "not verified no number of output_0 is finite" in text_of(broken.save_report(tmp_path / "report.html"))


class Wrong:
    """A plugin with a rule that is wrong."""

    @hookimpl
    def jax2onnx_register(self, registry):
        rules = Rules(overrides=True)
        rules.elementwise({"tanh": "Sin"})
        registry.add(rules)


def test_the_output_that_differs_is_shown(tmp_path):
    program = to_onnx(model, [("B", 32)], plugins=[Wrong()])
    with pytest.raises(VerificationError, match="differs from what it should be"):
        program.verify()
    assert not program.verified[-1].is_close
    assert "differs in 1 run" in text_of(program.save_report(tmp_path / "report.html"))


def test_what_verification_in_fewer_bits_found_is_shown(program, tmp_path):
    quantised = program.quantize("int8")
    found = quantised.verify(inputs=[np.ones((3, 32), np.float32)])
    assert quantised.measurements.accuracy is found.accuracy
    assert "SNR" in text_of(quantised.save_report(tmp_path / "report.html"))


def test_a_profile_is_shown_by_line(program, tmp_path):
    times = program.profile()
    assert times.keys() <= {node.name for node in program.model.graph}
    assert program.profile(np.ones((3, 32), np.float32)).keys() == times.keys()
    assert re.search(r"[µm]s in its nodes", text_of(program.save_report(tmp_path / "report.html")))


def test_casts_for_the_runtime_have_a_reason(tmp_path):
    program = to_onnx(jnp.tanh, [(("B",), "bfloat16")])
    assert "onnxruntime has no Tanh for bfloat16" in text_of(program.save_report(tmp_path / "report.html"))


def test_casts_of_half_precision_have_a_reason(program, tmp_path):
    text = text_of(program.quantize("float16").save_report(tmp_path / "report.html"))
    assert "is computed in float16" in text


@pytest.mark.parametrize(
    ("path", "message"), [(".", "is a directory"), ("nowhere/report.html", "does not exist"), ("a\0b", "NUL")]
)
def test_where_no_page_can_be_the_error_says_so(program, tmp_path, path, message):
    with pytest.raises(SaveError, match=message):
        program.save_report(tmp_path / path)
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_made_leaves_the_old_one(program, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(SaveError, match="full"):
        program.save_report(path)
    assert path.read_text() == "old"


def attention_with_probabilities(query, key, value):
    logits = query @ key.T / 2
    weights = jnp.exp(logits - logits.max(-1, keepdims=True))
    probabilities = weights / weights.sum(-1, keepdims=True)
    return probabilities @ value, probabilities


def test_the_report_says_why_an_operator_was_not_formed():
    program = to_onnx(attention_with_probabilities, [(3, 4), (5, 4), (5, 4)], provenance=True)
    line = attention_with_probabilities.__code__.co_firstlineno + 4
    sentence = f"Attention was not formed at {__file__}:{line}"
    assert re.search(rf"{re.escape(sentence)}.*: the probabilities have a second reader", program.report())


def test_the_report_of_a_model_without_attention_gives_no_such_reason(program):
    assert "was not formed" not in program.report()


def test_the_page_says_how_many_numbers_there_are_and_at_which_sizes_they_were_timed(program, tmp_path):
    program.profile(np.ones((3, 32), np.float32))
    text = text_of(program.save_report(tmp_path / "report.html"))
    assert "1,024 parameters" in text
    assert "in its nodes, at B = 3" in text


def test_the_page_has_no_path_of_the_machine_that_it_was_made_on(program, tmp_path):
    page = program.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "program/test_report.py:" in page
    assert str(Path(__file__).parents[2]) not in page


def test_weights_beyond_the_largest_can_be_opened(tmp_path):
    weights = [jnp.full((4, 4), i, jnp.float32) for i in range(40)]
    program = to_onnx(lambda x: sum(jnp.tanh(x @ w) for w in weights), [("B", 4)])
    assert "The other 17" in text_of(program.save_report(tmp_path / "report.html"))


@pytest.mark.parametrize("make", [lambda p: p, lambda p: p.quantize("float16"), lambda p: p.portable()])
def test_a_notebook_shows_a_program(program, make):
    cell = make(program)._repr_html_()
    assert "float" in cell
    assert "[B, 32]" in cell
    assert "<script" not in cell


def test_names_are_text_in_a_notebook(program):
    assert "&lt;b&gt;" in to_onnx(model, [("B", 32)], input_names=["<b>"])._repr_html_()


def test_an_editor_completes_the_public_names():
    assert {*jax2onnx_core.__all__} <= {*dir(jax2onnx_core)}
