"""Comparing the values of a model: what is compared, and what the text says."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_runtime.bisection import EquationSource, Intermediate, _compared, bisect
from jax2onnx_runtime.runtimes import reference_runtime

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N] x) => (float[N] y) { a = Neg(x) b = Exp(a) y = Add(b, b) }"""
X = np.array([0.0, 1.0, np.nan], np.float32)
A, B = -X, np.exp(-X)
SOURCE = EquationSource("exp", "rules:exp", "acme", "/home/me/model.py:3 (f)", "layer")


def compared(values, *, runtime=reference_runtime, outputs=(B + B,), **options):
    model = ir.from_onnx_text(MODEL)
    intermediates = [Intermediate(name, SOURCE, array) for name, array in values.items()]
    options = {"rtol": None, "atol": None, **options}
    return bisect(model, runtime, {"x": X}, intermediates, (outputs, [B + B]), "the given inputs", **options)


def test_values_are_compared_in_the_order_of_the_function():
    assert [value.name for value in compared({"b": B, "a": A})] == ["b", "a", "y"]


def test_values_that_the_model_does_not_have_are_counted():
    found = compared({"gone": A, "": A, "b": B})
    assert [value.name for value in found] == ["b", "y"]
    assert list(found.absent) == [SOURCE, SOURCE]
    assert "2 more values of the function are not in the model" in str(found)


def test_a_value_in_another_layout_is_compared_in_that_of_the_function():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[2,3] x) => (float[2,3] y) { a = Neg(x) y = Exp(a) }""")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    one, results = Intermediate("a", SOURCE, -x.T, axes=(1, 0)), [np.exp(-x)]
    found = bisect(model, reference_runtime, {"x": x}, [one], (results, results), "", rtol=None, atol=None)
    assert [(value.name, value.shape, value.is_close) for value in found] == [("a", (3, 2), True), ("y", (2, 3), True)]


@pytest.mark.parametrize(
    ("got", "want", "index"),
    [
        (np.array([1, 2**60]), np.array([1, 2**60 + 1]), 1),
        (np.array([5, 2**60]), np.array([1, 2**60 + 1]), 0),
        (np.array([1j, 2 + 1j]), np.array([1j, 2 + 2j]), 1),
        (np.array([True, False]), np.array([True, True]), 1),
        (np.array([np.inf, -np.inf]), np.array([np.inf, np.inf]), 1),
    ],
)
def test_elements_that_differ_are_shown(got, want, index):
    worst = _compared(Intermediate("a", SOURCE, want), "", got, 0.0, 0.0, 0.0).worst
    assert (worst[0].index, worst[0].got, worst[0].want) == ((index,), got[index], want[index])
    assert len(worst) == sum(got != want)


def test_a_notebook_shows_the_values_that_differ():
    cell = compared({"a": A, "b": B + np.array([0, 1, 0], np.float32)})._repr_html_()
    assert "<th>SNR</th>" in cell
    assert "The first difference, at the given inputs: exp" in cell


def test_the_model_stays_as_it_is():
    model = ir.from_onnx_text(MODEL)
    bisect(
        model, reference_runtime, {"x": X}, [Intermediate("b", SOURCE, B)], ([B + B], [B + B]), "", rtol=None, atol=None
    )
    assert [output.name for output in model.graph.outputs] == ["y"]


def test_the_text_names_the_first_difference():
    text = str(compared({"a": A, "b": B + np.array([0, 1, 0], np.float32)}))
    assert text.splitlines()[:9] == [
        "The first difference, at the given inputs: exp",
        "  line        /home/me/model.py:3 (f)",
        "  module      layer",
        "  lowered by  rules:exp, acme",
        "  value       b, float32[3], by Exp",
        "  difference  1 of 3 elements, largest difference 1",
        f"    at [1]: {B[1]!s} instead of {B[1] + 1!s}",
        "Compared before it: 1, all close. After it: 1, of which 0 differ.",
        "      SNR   largest     scale  value, operation, line",
    ]


def test_another_shape_is_a_difference():
    assert compared({"b": B[:2]}).first.detail == "the shape is [3] instead of [2]"


def test_tolerances():
    off = {"b": B * np.float32(1.01)}
    assert compared(off).first is not None
    assert compared(off, rtol=0.1).first is None


def test_a_model_in_fewer_bits_has_their_tolerance_everywhere():
    half = MODEL.replace("b = Exp(a)", "h = Cast<to=10>(a) e = Exp(h) b = Cast<to=1>(e)")
    rounded = np.exp(A.astype(np.float16)).astype(np.float32)
    intermediates = [Intermediate("h", SOURCE, A), Intermediate("e", SOURCE, B), Intermediate("b", SOURCE, B)]
    model, results = ir.from_onnx_text(half), ([rounded * 2], [B + B])
    assert bisect(model, reference_runtime, {"x": X}, intermediates, results, "", rtol=None, atol=None).first is None
    assert (
        bisect(model, reference_runtime, {"x": X}, intermediates, results, "", rtol=1e-5, atol=None).first is not None
    )


def test_what_is_wrong_only_while_nobody_looks_is_told_apart():
    found = compared({"a": A, "b": B}, outputs=(B,))
    assert found.first.source.operation == "the model as a whole"
    assert "All 3 values agree, at the given inputs, but 'y' does not while nobody looks at the others" in str(found)


@pytest.mark.parametrize("wrong", [0, 2])
def test_by_error_has_the_noisiest_value_first(wrong):
    values = {"a": A.copy(), "b": B.copy(), "x": X.copy()}
    list(values.values())[wrong][1] += 1
    assert compared(values).by_error()[0].name == list(values)[wrong]
