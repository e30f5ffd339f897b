"""How sequences of different lengths run in one batch, by the forms of a decoder's inputs and the use of its states."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_generation.decoders.forms import DecoderForms, LogitsForm, MaskForm, PositionsForm, TokensForm
from jax2onnx_generation.decoders.kinds import Kind, StateKind
from jax2onnx_generation.decoders.states import StateUse
from jax2onnx_generation.decoders.traits import Batching, decoder_traits
from jax2onnx_graph.metadata import StatePair

INT, BOOL = np.dtype(np.int64), np.dtype(bool)
FORMS = DecoderForms(
    TokensForm("tokens", INT, ("batch", "time"), "B", "T"), LogitsForm("logits", 0, (), has_all=True, vocabulary=11),
    PositionsForm("positions", INT, ("batch", "time")),
    MaskForm("mask", BOOL, ("batch", "time", "keys"), ("B", "T", "K"), ("cache", 1), grows=True),
)  # fmt: skip


def use(kind: Kind, name: str = "cache", places: Sequence[str] | None = None, **options: bool) -> StateUse:
    by_row = options.pop("by_row", False)
    return StateUse(
        StatePair(name, f"new_{name}"),
        StateKind(kind, 1, **options),
        None if places is None else frozenset(places),
        by_row,
    )


GROWN = [use(Kind.GROWS)]
WRITTEN = use(Kind.CACHE, places=["positions"], by_row=True)
COUNTED = [use(Kind.CACHE, places=["count"]), use(Kind.COUNTER, "count")]


def batching(uses: Sequence[StateUse], *, is_windowed: bool = False, **changes: Any) -> Batching:
    """The way for the forms with some of their fields changed: `mask={"cache": None}`, or `mask=None`."""
    forms: Any = {
        name: change if change is None else dataclasses.replace(vars(FORMS)[name], **change)
        for name, change in changes.items()
    }
    model = ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 20}), ir_version=10)
    return decoder_traits(model, dataclasses.replace(FORMS, **forms), uses, is_windowed=is_windowed).batching


@pytest.mark.parametrize(
    ("uses", "changes", "is_padded"),
    [
        (GROWN, {}, True),
        (COUNTED, {}, True),
        ([*GROWN, *COUNTED], {}, True),
        ([], {}, False),
        ([*GROWN, use(Kind.OTHER, "sum")], {}, False),
        ([*GROWN, WRITTEN], {}, False),
        ([use(Kind.CACHE), use(Kind.COUNTER, "count")], {}, False),
        ([use(Kind.CACHE, places=["count"], rolls=True), use(Kind.COUNTER, "count")], {}, False),
        (GROWN, {"is_windowed": True}, False),
        (GROWN, {"mask": None}, False),
        (GROWN, {"mask": {"cache": None}}, False),
        (GROWN, {"mask": {"axes": ("one", "time", "keys")}}, False),
        (GROWN, {"mask": {"axes": ("batch", "keys")}}, True),
        (GROWN, {"positions": None}, False),
        (GROWN, {"positions": {"axes": ("one", "time")}}, False),
        (GROWN, {"positions": {"axes": ("batch",)}}, False),
        (GROWN, {"positions": {"axes": ("batch",)}, "tokens": {"time": 1}}, True),
        (GROWN, {"tokens": {"batch": 1}}, False),
        (GROWN, {"logits": {"has_all": False}}, True),
    ],
)
def test_hidden_tokens_are_put_in_front(uses, changes, is_padded):
    assert batching(uses, **changes) == (Batching.PADDED if is_padded else Batching.EQUAL_LENGTHS)


@pytest.mark.parametrize(
    ("uses", "changes", "is_own"),
    [
        ([WRITTEN], {}, True),
        ([WRITTEN, WRITTEN], {}, True),
        ([WRITTEN], {"mask": None}, True),
        ([WRITTEN], {"mask": {"axes": ("one", "time", "keys")}}, False),
        ([WRITTEN], {"mask": {"axes": ("batch", "keys")}}, True),
        ([WRITTEN, dataclasses.replace(WRITTEN, by_row=False)], {}, False),
        ([WRITTEN, dataclasses.replace(WRITTEN, places=None)], {}, False),
        ([dataclasses.replace(WRITTEN, places=frozenset({"positions", "other"}))], {}, False),
        ([use(Kind.CACHE, places=["positions"], by_row=True, rolls=True)], {}, False),
        ([WRITTEN, use(Kind.OTHER, "sum")], {}, False),
        ([WRITTEN], {"positions": None}, False),
        ([WRITTEN], {"positions": {"name": "places"}}, False),
        ([WRITTEN], {"positions": {"axes": ("one", "time")}}, False),
        ([WRITTEN], {"positions": {"axes": ("batch",)}}, True),
        ([WRITTEN], {"logits": {"has_all": False}}, False),
        ([WRITTEN], {"logits": {"has_all": False}, "tokens": {"time": 1}}, True),
        ([WRITTEN], {"tokens": {"batch": 1}}, False),
    ],
)
def test_each_sequence_is_written_at_positions_of_its_own(uses, changes, is_own):
    assert batching(uses, **changes) == (Batching.OWN_POSITIONS if is_own else Batching.EQUAL_LENGTHS)


@pytest.mark.parametrize(("body", "positions"), [
    ("y = Gather(table, positions)", 7), ("a = Gather(table, positions) b = Gather(small, positions) y = Add(a, b)", 5),
    ("y = Cast<to = 1>(positions)", None), ("p = Add(positions, other) y = Gather(table, p)", 7), ("y = Gather(table, other)", None),
    ("p = Add(steps, count) y = Gather(small, p)", 5), ("a = Gather(table, positions) b = Gather(small, count) y = Add(a, b)", 5),
    ("two = Constant<value = int64 {2}>() p = Add(positions, two) y = Gather(table, p)", 5),
    ("at = Unsqueeze(count, zero) end = Add(at, length) y = Slice(table, at, end, zero)", 7),
    ("same = Equal(count, numbers) y = Cast<to = 1>(same)", 4),
    ("y = Gather(small, sum)", None), ("y = Gather(wide, count)", None),
])  # fmt: skip
def test_positions_that_are_looked_up_are_as_many_as_the_table_has(body, positions):
    inputs = "int64[B,T] positions, int64[B,T] other, int64[T] steps, int64 count, int64 sum, float[7] table, float[5] small, float[W] wide"
    text = f'<ir_version: 10, opset_import: ["" : 20]> main ({inputs}) => (float[B,T] y) <int64[1] zero = {{0}}, int64[1] length = {{1}}, int64[4] numbers = {{0, 1, 2, 3}}> {{ {body} }}'
    uses = [*GROWN, use(Kind.COUNTER, "count"), use(Kind.OTHER, "sum")]
    assert decoder_traits(ir.from_onnx_text(text), FORMS, uses, is_windowed=False).positions == positions
