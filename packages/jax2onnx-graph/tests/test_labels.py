"""Labels of symbolic dimensions: read, collected in the table of symbols, and missed where they are lost."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.labels import (
    LabelCount,
    check_labels,
    count_labels,
    fixed_labels,
    numbers_in,
    symbol_table,
    symbols_in,
)
from jax2onnx_graph.metadata import DIMS_KEY

TEXT = """<ir_version: 10, opset_import: ["" : 23]>
g (float[N,4] x) => (float[N,4] y) { a = Exp(x) y = Neg(a) }"""


def model(**shapes: list[int | str | None] | None) -> ir.Model:
    """The model whose values have these shapes, by default [N, 4]."""
    made = ir.from_onnx_text(TEXT)
    for value in (made.graph[0].outputs[0], made.graph.outputs[0]):
        dims = shapes.get(value.name or "", ["N", 4])
        value.shape = None if dims is None else ir.Shape(dims)
    return made


KNOWN = symbol_table({"x": ["N", None]}, lambda _: 1, {})


def test_symbols_and_numbers_in_a_label():
    assert symbols_in("floordiv(T - 4, 2) + max(S2, 1)") == {"T", "S2"}
    assert numbers_in("floordiv(T - 4, 2) + S2") == {4, 2}


def test_the_table_of_symbols():
    table = symbol_table({"x": ["N", None], "z": ["2*T", "N"]}, {"N": 1, "T": 2}.__getitem__, {"T": 5})
    assert {name: (info.minimum, info.value, info.origins) for name, info in table.items()} == {
        "N": (1, None, (("x", 0, "N"), ("z", 1, "N"))), "T": (2, 5, (("z", 0, "2*T"),)),
    }  # fmt: skip


def test_a_model_with_all_labels_is_well():
    assert check_labels(model(), KNOWN, [["N", None]]) == []


def test_dimensions_without_a_label_with_an_unknown_one_and_without_a_shape():
    assert check_labels(model(a=[None, 4]), KNOWN, [["N", None]]) == ["a: axis 0 has no label."]
    assert check_labels(model(a=["M + 1", 4]), KNOWN, [["N", None]]) == [
        "a: axis 0 is labelled 'M + 1'; no input has M."
    ]
    (line,) = check_labels(model(a=None), KNOWN, [["N", None]])
    assert line == "a: its shape is not known; the rule that emits it should give dims=… to ctx.op."


def test_an_output_that_lost_its_label():
    assert check_labels(model(y=[3, 4]), KNOWN, [["N", None]]) == ["y: axis 0 should be N, but is 3."]


def test_dimensions_are_counted_that_use_the_symbols_of_inputs():
    assert count_labels(model()) == LabelCount(symbolic=3, labelled=3)
    assert count_labels(model(a=["2*N + 1", "N"])) == LabelCount(symbolic=4, labelled=4)


def test_a_dimension_without_label_or_with_a_name_that_no_input_has_is_counted_as_not_labelled():
    assert count_labels(model(a=[None, "M"])) == LabelCount(symbolic=4, labelled=2)


def test_a_value_without_a_shape_is_counted_as_one_dimension_if_it_is_read():
    assert count_labels(model(a=None)) == LabelCount(symbolic=3, labelled=2)
    unread = model()
    unread.graph.append(ir.Node("", "Exp", [unread.graph.inputs[0]]))
    assert count_labels(unread) == LabelCount(symbolic=3, labelled=3)


def test_the_share_of_a_model_without_symbolic_dimensions_is_one():
    assert (LabelCount(8, 6).share, LabelCount(0, 0).share) == (0.75, 1.0)


def test_dimensions_in_subgraphs_and_functions_are_counted_but_not_what_functions_take_and_return():
    text = """<ir_version: 10, opset_import: ["" : 23, "f" : 1]>
    g (float[N] x, bool c) => (float[N] y) {
        y = If (c) <then_branch = t () => (float[N] p) { p = f.twice(x) }, else_branch = e () => (float[M] q) { q = Exp(x) }>
    }
    <domain: "f", opset_import: ["" : 23]> twice (a) => (b) { h = Add(a, a) b = Identity(h) }"""
    made = ir.from_onnx_text(text)
    assert count_labels(made) == LabelCount(symbolic=5, labelled=3)  # q's and h's are not


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", []),
        ("N, 4", ["N", "4"]),
        ("max(N, 2), 4", ["max(N, 2)", "4"]),
        ("max(N, mod(T, 3)), T", ["max(N, mod(T, 3))", "T"]),
    ],
)
def test_labels_of_fixed_dimensions(text, labels):
    assert fixed_labels(ir.Value(name="x", metadata_props={DIMS_KEY: text} if text else {})) == labels


FIXED = symbol_table({"x": ["N", None]}, lambda _: 1, {"N": 6})


@pytest.mark.parametrize(
    ("shape", "text", "line"),
    [
        ([6, 4], "N, 4", None),
        ([6, 4], "N, floordiv(N, 2) + 1", None),
        ([6, 4], "N", "a: its metadata have labels for 1 dimensions, but it has 2."),
        ([6, 4], "N, M", "a: axis 1 was 'M'; no input has M."),
        ([6, 4], "N, 2*N", "a: axis 1 was 2*N, which is 12, but has size 4."),
        ([5, 4], "N, 4", "a: axis 0 was N, which is 6, but has size 5."),
    ],
)
def test_dimensions_that_were_fixed_stand_for_their_labels(shape, text, line):
    made = model(a=shape, y=[6, 4])
    made.graph.inputs[0].shape = ir.Shape([6, 4])
    made.graph.inputs[0].metadata_props[DIMS_KEY] = "N, 4"
    made.graph[0].outputs[0].metadata_props[DIMS_KEY] = text
    made.graph.outputs[0].metadata_props[DIMS_KEY] = "N, 4"
    assert check_labels(made, FIXED, [["N", None]]) == ([] if line is None else [line])


def test_a_fixed_output_that_lost_its_label():
    made = model(a=[6, 4], y=[6, 4])
    made.graph.inputs[0].metadata_props[DIMS_KEY] = "N, 4"
    made.graph.outputs[0].metadata_props[DIMS_KEY] = "6, 4"
    assert check_labels(made, FIXED, [["N", None]]) == ["y: axis 0 should be N, but is 6."]


@pytest.mark.parametrize(
    ("body", "is_missed"),
    [
        ("y = Exp(x)", True),
        ("u = Exp(x) y = Neg(u)", False),
        ("y, i = TopK(x, k)", False),
        ("y, i = TopK(x, two)", True),
        ("u = Exp(x) y = Add(x, u)", False),
        (
            "y = If (c) <then_branch = t () => (float[N] p) { p = Exp(x) }, else_branch = e () => (float[N] q) { q = Neg(x) }>",
            True,
        ),
        (
            "y = If (c) <then_branch = t () => (float[?] p) { p = Exp(x) }, else_branch = e () => (float[N] q) { q = Neg(x) }>",
            False,
        ),
    ],
)
def test_a_dimension_may_have_no_label_where_its_size_depends_on_data(body, is_missed):
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float[N] x, bool c, int64[1] k) => (float[?] y) <int64[1] two = {{2}}> {{ {body} }}'
    made = ir.from_onnx_text(text)
    for node in made.graph:
        for value in node.outputs:
            value.shape = ir.Shape([None])
    names = [line.partition(":")[0] for line in check_labels(made, KNOWN, [[None]])]
    assert ("y" in names) is is_missed
