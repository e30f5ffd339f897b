"""Matrices that a Scan hands to its body one by one."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_runtime.adapters.stacks import drop_unread_entries, entry_of, stacks_among


def scan(attributes: str = "", body: str = "t = Add(s, v) u = Add(t, w)") -> ir.Node:
    text = f"""<ir_version: 10, opset_import: ["" : 18]> g (float[2] h, float[3,2] x, float[3,2] z) => (float[2] y) {{
      y = Scan<num_scan_inputs = 2{attributes}, body = b (float[2] s, float[2] v, float[2] w) => (float[2] u) {{ {body} }}>(h, x, z) }}"""
    return ir.from_onnx_text(text).graph[0]


@pytest.mark.parametrize(
    ("attributes", "index", "expected"),
    [
        ("", 0, None), ("", 1, "v"), ("", 2, "w"), (", scan_input_axes = [0, 1]", 1, "v"), (", scan_input_axes = [0, 1]", 2, None),
        (", scan_input_axes = [1, 0]", 1, None), (", scan_input_axes = [1, 0]", 2, "w"),
    ],
)  # fmt: skip
def test_an_entry_is_one_along_the_first_axis(attributes, index, expected):
    entry = entry_of(scan(attributes), index)
    assert (entry and entry.name) == expected


def test_other_nodes_have_no_entries():
    node = scan()
    node.domain = "other"
    assert entry_of(node, 1) is None
    assert entry_of(scan().attributes["body"].as_graph()[0], 0) is None


def test_entries_lead_to_their_stacks():
    node = scan()
    found = stacks_among(value for value in node.inputs if value is not None)
    assert {entry.name: stack.name for entry, stack in found.items()} == {"v": "x", "w": "z"}


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("t = Add(s, v) u = Add(t, w)", ["x", "z"]), ("u = Add(s, v)", ["x"]), ("u = Add(s, w)", ["z"]), ("u = Neg(s)", ["z"]),
    ],
)  # fmt: skip
def test_what_nothing_reads_is_not_handed_on(body, kept):
    node = scan(", scan_input_axes = [0, 1], scan_input_directions = [0, 1]", body)
    drop_unread_entries(node)
    assert [value.name for value in node.inputs] == ["h", *kept]
    assert [value.name for value in node.attributes["body"].as_graph().inputs] == [
        "s",
        *({"x": "v", "z": "w"}[name] for name in kept),
    ]
    assert node.attributes["num_scan_inputs"].as_int() == len(kept)
    for name in ("scan_input_axes", "scan_input_directions"):
        assert list(node.attributes[name].as_ints()) == [{"x": 0, "z": 1}[name] for name in kept]
