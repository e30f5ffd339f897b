"""What models note of their sizes."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.metadata import SizeNotes

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
