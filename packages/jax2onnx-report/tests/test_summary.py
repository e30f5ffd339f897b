"""Summaries and differences of models, whoever wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.metadata import StatePair, SymbolInfo, write_assumptions, write_states, write_symbols
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.saving.writing import save_model
from jax2onnx_report.difference import diff_models
from jax2onnx_report.summary import external_files, summarize

HEAD = '<ir_version: 10, opset_import: ["" : 21, "acme": 1], producer_name: "other", producer_version: "2.1">'
MODEL = """
main (float[B, 3] x, int64[1] n) => (float[B, 4] y, float[C] z)
<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {1, 2, 3, 4}>
{
    h = MatMul(x, w)
    y = Add(h, b)
    half = Constant<value = float[1] {0.5}>()
    z = Loop(n, , half) <body = step (int64 i, bool go, float[1] s) => (bool on, float[1] t, float[1] row)
        {
            on = Identity(go)
            t = acme.twice(s)
            row = Identity(t)
        }>
}
"""
FUNCTION = '<domain: "acme", opset_import: ["" : 21]> twice (a) => (b) { b = Add(a, a) }'


def model_of(text: str = MODEL) -> ir.Model:
    return ir.from_onnx_text(f"{HEAD} {text} {FUNCTION}")


def test_a_summary_has_versions_interface_operators_functions_and_weights():
    found = summarize(model_of())
    assert (found.name, found.producer, found.producer_version, found.ir_version) == ("main", "other", "2.1", 10)
    assert found.opsets == {"": 21, "acme": 1}
    assert [value.type for value in found.inputs] == ["float32[B, 3]", "int64[1]"]
    assert [(value.name, value.dims) for value in found.outputs] == [("y", ("B", 4)), ("z", ("C",))]
    assert found.operators == {"Add": 2, "Identity": 2, "MatMul": 1, "Constant": 1, "Loop": 1, "twice": 1}
    assert found.nodes == 8
    assert found.functions == {"twice": 1}
    assert [(w.name, w.type, w.bytes) for w in found.weights] == [
        ("w", "float32[3, 4]", 48), ("b", "float32[4]", 16), ("half", "float32[1]", 4),
    ]  # fmt: skip
    assert found.weight_bytes == 68


def test_a_summary_has_the_symbols_and_states_of_our_models():
    model = model_of()
    symbol = SymbolInfo("B", 1, None, (("x", 0, "2*B"),))
    write_symbols(model, {"B": symbol}, ["B <= 8"])
    write_states(model, [StatePair("x", "y", 0)])
    found = summarize(model)
    assert (found.symbols, found.constraints, found.states) == ((symbol,), ("B <= 8",), (StatePair("x", "y", 0),))
    assert found.metadata == {}
    rows = (
        "B  at least 1, from x axis 0 (2*B)", "B <= 8", "x  comes back as y, grows along axis 0",
        # Those of x and y; not that of z, whose name no input has, and not h, whose shape is not known.
        "  labelled   2 of 4 symbolic dimensions (50 %)",
    )  # fmt: skip
    for row in rows:
        assert row in str(found)


def test_a_summary_has_what_a_model_assumes():
    model = model_of()
    write_assumptions(model, [Assumption.FINITE])
    found = summarize(model)
    assert (found.assumptions, found.metadata) == (("finite",), {})
    assert "  assumes    finite  no number is NaN or infinite" in str(found)


def test_a_summary_is_the_same_as_json():
    found = summarize(model_of())
    again = json.loads(json.dumps(found.as_dict()))
    assert again["inputs"][0] == {"name": "x", "dtype": "float32", "dims": ["B", 3], "type": "float32[B, 3]"}
    assert again["weights"][0]["name"] == "w"
    assert again["nodes"] == 8


def test_the_text_of_a_summary_is_a_table():
    assert str(summarize(model_of())).splitlines() == [
        "ONNX model main, opset 21, acme 1, IR version 10",
        "  input      x  float32[B, 3]",
        "             n  int64[1]",
        "  output     y  float32[B, 4]",
        "             z  float32[C]",
        "  function   twice  1 node",
        "  weights    68 B in 3 tensors: w 48 B, b 16 B",
        "  nodes      8: Add 2, Identity 2, MatMul 1, Constant 1, Loop 1, twice 1",
    ]


def test_a_summary_of_many_inputs_shows_a_few():
    inputs = ", ".join(f"float[{i + 1}] x{i}" for i in range(30))
    lines = str(summarize(model_of(f"main ({inputs}) => (float[1] y) {{ y = Identity(x0) }}"))).splitlines()
    assert len(lines) < 16
    assert "             … 22 more" in lines


@pytest.mark.parametrize(
    ("type_", "shape", "text"),
    [
        (ir.SequenceType(ir.TensorType(ir.DataType.INT64)), ir.Shape([2]), "sequence(int64[2])"),
        (ir.OptionalType(ir.TensorType(ir.DataType.BFLOAT16)), None, "optional(bfloat16[…])"),
        (ir.SparseTensorType(ir.DataType.DOUBLE), ir.Shape([None, 1]), "sparse float64[?, 1]"),
        (ir.TensorType(ir.DataType.STRING), ir.Shape([]), "string[]"),
        (None, None, "unknown[…]"),
    ],
)
def test_every_type_of_an_input_has_a_text(type_: ir.TypeProtocol | None, shape: ir.Shape | None, text: str) -> None:
    model = model_of()
    model.graph.inputs.append(ir.Value(name="more", type=type_, shape=shape))
    assert summarize(model).inputs[-1].type == text


def test_initializers_among_the_inputs_are_no_inputs():
    model = model_of()
    model.graph.inputs.append(model.graph.initializers["w"])
    assert [value.name for value in summarize(model).inputs] == ["x", "n"]


def test_a_model_without_anything_has_a_summary():
    found = summarize(ir.Model(ir.Graph([], [], nodes=[], opset_imports={}), ir_version=8))
    assert (found.nodes, found.weight_bytes, found.producer) == (0, 0, "")
    assert "weights    none" in str(found)


def test_weights_in_a_data_file_are_named_and_not_read(tmp_path: Path) -> None:
    path = save_model(model_of(), tmp_path / "model.onnx", external_data=True, threshold=40)
    (data,) = tmp_path.glob("*.data")
    model = read_model(path)
    assert diff_models(model, model_of()).changes == ()
    data.unlink()
    assert external_files(summarize(read_model(path))) == {data.name: 48}
    assert f"data       {data.name}, 48 B of the weights" in str(summarize(read_model(path)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.onnx", None, "No such file"),
        ("model.onnx", b"", "is no ONNX model"),
        ("model.onnx", b"import jax\n", "is no ONNX model"),
        (".", None, "is a directory"),
    ],
)
def test_what_is_no_model_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ReadError, match=message):
        read_model(tmp_path / name)


# -- differences --------------------------------------------------------------------------------


def test_a_model_does_not_differ_from_itself_written_by_another_producer():
    other = model_of()
    other.producer_name, other.graph.name = "somebody", "else"
    for node in other.graph:
        node.name = f"{node.name}_of_another"
    found = diff_models(model_of(), other)
    assert not found
    assert str(found) == "The models are the same."


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("float[B, 3] x", "double[B, 3] x", "~ input x  float32[B, 3] → float64[B, 3]"),
        ("float[B, 4] y", "float[K, 4] y", "~ output y  float32[B, 4] → float32[K, 4]"),
        ("float[C] z)", "float[C] z, float h)", "+ output h  float32[]"),
        ("8, 9, 10", "8, 9.5, 10", "~ weight w  float32[3, 4], 1 of 12 elements differ, the largest difference is 0.5"),
        ("float[1] {0.5}", "double[1] {0.5}", "~ weight half  float32[1] → float64[1]"),
        ("Add(h, b)", "Mul(h, b)", "~ node y  Add(h, b) → Mul(h, b)"),
        ("Add(h, b)", "Mul(h, b)", "+ operator Mul  1"),
        ("Add(h, b)", "Add(b, h)", "~ node y  Add(h, b) → Add(b, h)"),
        ("t = acme.twice(s)", "t = Abs(s)", "~ node t  acme.twice(s) → Abs(s)"),
        ("b = Add(a, a)", "b = Sub(a, a)", "~ node b  Add(a, a) → Sub(a, a)"),
        ('"" : 21, "acme"', '"" : 20, "acme"', "~ version opset  21 → 20"),
    ],
)
def test_a_difference_names_what_changes(before: str, after: str, change: str) -> None:
    text = f"{HEAD} {MODEL} {FUNCTION}"
    assert before in text
    found = diff_models(ir.from_onnx_text(text), ir.from_onnx_text(text.replace(before, after, 1)))
    assert change in str(found).splitlines()


def test_metadata_and_strings_differ_by_content():
    one, other = model_of(), model_of()
    other.metadata_props["licence"] = "none"
    for model, word in ((one, "a"), (other, "b")):
        tensor = ir.StringTensor([word.encode()], name="words", shape=ir.Shape([1]))
        model.graph.register_initializer(ir.Value(name="words", const_value=tensor))
    assert str(diff_models(one, other)).splitlines() == [
        "~ weight words  string[1], other strings", "+ metadata licence  none",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "was", "becomes", "distance"),
    [
        ("float", "0, 1", "0, 1.5", "1 of 2 elements differ, the largest difference is 0.5"),
        ("float", "1, 2", "4, 0", "2 of 2 elements differ, the largest difference is 3"),
        ("float", "1, 2", "0.75, inf", "2 of 2 elements differ, the largest difference is 0.25"),
        ("float", "1, nan", "nan, 1", "2 of 2 elements differ, the largest difference is 0"),
        ("float", "0, 3", "-0.0, 3", "0 of 2 elements differ, the largest difference is 0"),
        ("uint8", "0, 250", "255, 250", "1 of 2 elements differ, the largest difference is 255"),
    ],
)
def test_the_distance_of_weights_is_that_of_finite_numbers(number: str, was: str, becomes: str, distance: str) -> None:
    one, other = model_of(), model_of()
    for model, numbers in ((one, was), (other, becomes)):
        array = np.array([float(word) for word in numbers.split(",")]).astype(
            "float32" if number == "float" else number
        )
        model.graph.register_initializer(ir.val("weight", const_value=ir.tensor(array, name="weight")))
    [change] = diff_models(one, other).changes
    assert (change.kind, change.name, change.detail) == ("weight", "weight", distance)
    assert str(change).endswith(f", {distance}")


@pytest.mark.parametrize(("count", "last"), [(12, "+ node v11  Abs(x)"), (13, "… 1 more of kind node")])
def test_a_kind_has_twelve_lines(count: int, last: str) -> None:
    text = "main (float[1] x) => (float[1] y) {{ {} y = Identity(x) }}"
    one, other = (text.format("".join(f"v{i} = Abs(x) " for i in range(n))) for n in (0, count))
    lines = str(diff_models(model_of(one), model_of(other))).splitlines()
    assert lines[-1] == last
    assert len([line for line in lines if line.startswith("+ node")]) == 12


def test_many_differences_are_a_few_lines_and_all_of_them_as_data():
    texts = [
        "main (float[1] x) => (float[1] y) { " + "".join(f"v{i} = {op}(x) " for i in range(40)) + "y = Identity(v0) }"
        for op in ("Abs", "Neg")
    ]
    found = diff_models(*map(model_of, texts))
    assert len(str(found).splitlines()) < 20
    assert len(json.loads(json.dumps(found.as_dict()))["changes"]) == 42


def test_models_of_other_producers_are_read(tmp_path: Path) -> None:
    """A model with a map for an output, as classifiers of other libraries have."""
    helper = onnx.helper
    probabilities = onnx.ValueInfoProto(name="p")
    probabilities.type.sequence_type.elem_type.map_type.key_type = onnx.TensorProto.INT64
    probabilities.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    node = helper.make_node("ZipMap", ["x"], ["p"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 2])
    weight = onnx.numpy_helper.from_array(np.zeros((2, 2), np.float16), "w")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "classifier", [x], [probabilities], [weight])
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "classifier.onnx")
    found = summarize(read_model(tmp_path / "classifier.onnx"))
    assert found.inputs[0].type == "float32[?, 2]"
    assert [(value.name, value.dtype) for value in found.outputs] == [("p", "")]
    assert found.weights[0].type == "float16[2, 2]"


def test_the_tensor_of_an_attribute_is_compared_by_its_numbers():
    text = f"{HEAD} g (int64[1] n) => (float[A] y) {{ y = ConstantOfShape <value = float[1] {{1}}> (n) }}"
    found = diff_models(ir.from_onnx_text(text), ir.from_onnx_text(text.replace("{1}", "{2}")))
    assert str(found) == (
        "~ node y  ConstantOfShape(n) {value=float32[1] [1.0]} → ConstantOfShape(n) {value=float32[1] [2.0]}"
    )


def test_functions_of_one_name_in_two_domains_are_two():
    head, other = HEAD.replace('"acme": 1', '"acme": 1, "other": 1'), FUNCTION.replace("acme", "other")
    model = ir.from_onnx_text(f"{head} {MODEL} {FUNCTION} {other}")
    assert summarize(model).functions == {"twice": 1, "other.twice": 1}
