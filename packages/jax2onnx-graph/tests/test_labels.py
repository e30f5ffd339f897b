"""Labels of symbolic dimensions: read, collected in the table of symbols, and missed where they are lost."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.labels import LabelCount, check_labels, count_labels, numbers_in, symbol_table, symbols_in

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
