"""What models note of their sizes, and what they say of themselves."""

from __future__ import annotations

import json
from collections.abc import Callable

import onnx_ir as ir
import pytest
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.errors import OptionError, ReadError
from jax2onnx_graph.metadata import (
    ASSUMPTIONS_KEY,
    EXPORTER_KEY,
    LAYOUTS_KEY,
    STATES_KEY,
    SYMBOLS_KEY,
    ModelMetadata,
    SizeNotes,
    StatePair,
    SymbolInfo,
    is_mended,
    note_mended,
    note_reason,
    note_sizes,
    read_assumptions,
    read_constraints,
    read_exporter,
    read_layouts,
    read_states,
    read_symbols,
    reason_of,
    size_notes,
    write_assumptions,
    write_exporter,
    write_layouts,
    write_states,
    write_symbols,
)

NOTES = SizeNotes({"T": True, "S": False, "T - S": True, "2*S": False})


@pytest.mark.parametrize(
    ("dim", "may_be_zero"),
    [
        (0, True), (1, False), ("T", False), ("S", True), ("T - S", False), ("2*S", True),
        (None, True),  # without a label
        ("3*T", False), ("T + 1", False), ("T*S", True), ("T - 1", True), ("T floordiv 2", True),  # made by a pass
        ("U", True), ("T*U", True),
    ],
)  # fmt: skip
def test_the_dimensions_that_may_be_zero(dim, may_be_zero):
    assert NOTES.may_be_zero(dim if isinstance(dim, int) else ir.SymbolicDim(dim)) is may_be_zero


@pytest.mark.parametrize("notes", [SizeNotes({}), SizeNotes({"T": True})])
def test_where_no_symbol_may_be_zero_only_the_number_is(notes):
    assert not notes.may_be_zero(ir.SymbolicDim("T - 1"))
    assert not notes.may_be_zero(ir.SymbolicDim(None))
    assert notes.may_be_zero(0)


def model() -> ir.Model:
    return ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[B] x, float[B] s) => (float[B] y, float[B] t) { y = Neg(x) t = Exp(s) }'
    )


SYMBOLS = {
    "B": SymbolInfo("B", 1, None, (("x", 0, "B"),)),
    "N": SymbolInfo("N", 0, 3, (), "NonZero, line 3", "2*B"),
}


def test_what_is_written_of_a_model_is_read():
    one = model()
    write_symbols(one, SYMBOLS, ["B >= 2"])
    write_states(one, [StatePair("s", "t", 0), StatePair("x", "y")])
    write_layouts(one, {"x": "NHWC->NCHW"})
    write_assumptions(one, [Assumption.FINITE])
    write_exporter(one, {"jax2onnx-core": "1.2", "jax": "0.10"})
    again = ir.from_proto(ir.to_proto(one))
    assert read_symbols(again) == list(SYMBOLS.values())
    assert read_constraints(again) == ["B >= 2"]
    assert read_states(again) == [StatePair("s", "t", 0), StatePair("x", "y")]
    assert read_layouts(again) == {"x": "NHWC->NCHW"}
    assert read_assumptions(again) == [Assumption.FINITE.value]
    assert read_exporter(again) == {"jax2onnx-core": "1.2", "jax": "0.10"}
    assert again.producer_version == "1.2"
    [first, second] = json.loads(again.metadata_props[SYMBOLS_KEY])["symbols"]
    assert {"source", "maximum"} & first.keys() == set()
    assert {"source", "maximum"} <= second.keys()


def test_a_model_of_which_nothing_is_known_says_nothing():
    one = model()
    write_symbols(one, {}, ["B >= 2"])
    write_states(one, [])
    write_layouts(one, {})
    write_assumptions(one, [])
    assert not one.metadata_props
    assert (read_symbols(one), read_constraints(one), read_states(one), read_assumptions(one)) == ([], [], [], [])
    assert (read_layouts(one), read_exporter(one)) == ({}, {})


@pytest.mark.parametrize(
    ("key", "text", "read"),
    [
        (SYMBOLS_KEY, "[", read_symbols), (SYMBOLS_KEY, "[]", read_symbols), (SYMBOLS_KEY, '{"symbols": [{"name": "B"}]}', read_symbols),
        (SYMBOLS_KEY, '{"constraints": [3]}', read_constraints), (STATES_KEY, '[{"input": "s"}]', read_states),
        (STATES_KEY, '[{"input": "y", "output": "t"}]', read_states), (STATES_KEY, '[{"input": "s", "output": "s"}]', read_states),
        (LAYOUTS_KEY, '{"x": 3}', read_layouts), (EXPORTER_KEY, "3", read_exporter), (ASSUMPTIONS_KEY, "[3]", read_assumptions),
    ],
)  # fmt: skip
def test_what_no_export_has_written_is_refused(key, text, read: Callable[[ir.Model], object]):
    one = model()
    one.metadata_props[key] = text
    with pytest.raises(
        ReadError, match=f"The entry '{key}' in the model's metadata is not what an export writes there"
    ):
        read(one)


def test_the_fields_that_are_given_are_written():
    one = model()
    one.model_version, one.doc_string, one.domain = 3, "old", "org.old"
    ModelMetadata(name="net", properties={"license": "MIT"}).write(one)
    assert (one.graph.name, one.model_version, one.doc_string, one.domain) == ("net", 3, "old", "org.old")
    assert one.metadata_props == {"license": "MIT"}
    ModelMetadata(version=0, doc_string="", domain="org.new", producer_version="2").write(one)
    assert (one.graph.name, one.model_version, one.doc_string, one.domain, one.producer_version) == (
        "net",
        0,
        "",
        "org.new",
        "2",
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": 3}, "name is a text, not 3"), ({"domain": b""}, "domain is a text"), ({"name": ""}, "the name of a graph is not empty"),
        ({"version": "1"}, "version is a number from 0"), ({"version": -1}, "version is a number"), ({"version": 2**63}, "version is a number"),
        ({"properties": {"a": 1}}, "properties are texts"), ({"properties": {1: "a"}}, "properties are texts"),
        ({"properties": {"jax2onnx.x": "a"}}, "is written by the export"),
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_are_refused(fields, message):
    ModelMetadata(version=2**63 - 1)
    with pytest.raises(OptionError, match=message):
        ModelMetadata(**fields)


def test_notes_stay_in_memory():
    one = model()
    node = one.graph[0]
    assert (reason_of(node), is_mended(node, "a"), size_notes(one)) == ("", False, SizeNotes({}))
    note_reason(node.outputs[0], "why")
    note_reason(one.graph.inputs[0], "no node has this")
    note_mended(node, "a")
    note_mended(node, "b")
    note_sizes(one, {"B": False})
    assert (reason_of(node), is_mended(node, "a"), is_mended(node, "b"), is_mended(node, "c")) == (
        "why",
        True,
        True,
        False,
    )
    assert size_notes(one) == SizeNotes({"B": False})
    assert not ir.to_proto(one).metadata_props
    assert not ir.to_proto(one).graph.node[0].metadata_props


def test_a_state_under_other_names_grows_along_the_same_axis():
    assert StatePair("s", "t", 2).renamed({"s": "a"}, {"t": "b"}) == StatePair("a", "b", 2)
