"""Labels of symbolic dimensions: read, collected in the table of symbols, and missed where they are lost."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.labels import check_labels, numbers_in, symbol_table, symbols_in

TEXT = """<ir_version: 10, opset_import: ["" : 23]>
g (float[N,4] x) => (float[N,4] y) { a = Exp(x) y = Neg(a) }"""


def model(**shapes: list[int | str | None] | None) -> ir.Model:
    """The model whose values have these shapes, by default [N, 4]."""
    made = ir.from_onnx_text(TEXT)
    for value in (made.graph[0].outputs[0], made.graph.outputs[0]):
        dims = shapes.get(value.name or "", ["N", 4])
        value.shape = None if dims is None else ir.Shape(dims)
    return made


def test_symbols_and_numbers_in_a_label():
    assert symbols_in("floordiv(T - 4, 2) + max(S2, 1)") == {"T", "S2"}
    assert numbers_in("floordiv(T - 4, 2) + S2") == {4, 2}


def test_the_table_of_symbols():
    table = symbol_table({"x": ["N", None], "z": ["2*T", "N"]}, {"N": 1, "T": 2}.__getitem__, {"T": 5})
    assert {name: (info.minimum, info.value, info.origins) for name, info in table.items()} == {
        "N": (1, None, (("x", 0, "N"), ("z", 1, "N"))), "T": (2, 5, (("z", 0, "2*T"),)),
    }  # fmt: skip


def test_a_model_with_all_labels_is_well():
    assert check_labels(model(), ["N"], [["N", None]]) == []


def test_dimensions_without_a_label_with_an_unknown_one_and_without_a_shape():
    assert check_labels(model(a=[None, 4]), ["N"], [["N", None]]) == ["a: axis 0 has no label."]
    assert check_labels(model(a=["M + 1", 4]), ["N"], [["N", None]]) == [
        "a: axis 0 is labelled 'M + 1'; no input has M."
    ]
    (line,) = check_labels(model(a=None), ["N"], [["N", None]])
    assert line == "a: its shape is not known; the rule that emits it should give dims=… to ctx.op."


def test_an_output_that_lost_its_label():
    assert check_labels(model(y=[3, 4]), ["N"], [["N", None]]) == ["y: axis 0 should be N, but is 3."]
