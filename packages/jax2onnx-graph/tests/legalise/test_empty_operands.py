"""Operators on operands that may be empty, for a target whose kernels take none."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.empty_operands import EmptyOperandsPass
from jax2onnx_graph.metadata import note_sizes, size_notes
from jax2onnx_graph.passes import make_names_unique
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

HEAD = '<ir_version: 10, opset_import: ["" : 23]>'
ATTENTION = f"""{HEAD} g (float[B,2,T,4] q, float[B,2,S,4] k, float[B,2,S,3] v) => (float[B,2,T,3] y) {{ y = Attention(q, k, v) }}"""
MERGED = f"""{HEAD} g (float[B,T,8] q, float[B,S,8] k, float[B,S,6] v) => (float[B,T,6] y) {{
    y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v) }}"""
LSTM = f"""{HEAD} g (float[T,B,3] x, float[1,8,3] w, float[1,8,2] r, float[1,B,2] h, float[1,B,2] c)
    => (float[T,1,B,2] y, float[1,B,2] h1, float[1,B,2] c1) {{ y, h1, c1 = LSTM<hidden_size = 2>(x, w, r, , , h, c) }}"""
RNN = f"""{HEAD} g (float[T,B,3] x, float[1,2,3] w, float[1,2,2] r) => (float[T,1,B,2] y, float[1,B,2] h1) {{
    y, h1 = RNN<hidden_size = 2>(x, w, r) }}"""
POSITIVE = {"B": True, "T": True, "S": True}


@pytest.fixture
def target(limited):
    return limited(lost={(name, "empty") for name in ("Attention", "LSTM", "GRU", "RNN")})


def guarded(text, target, **may_be_zero) -> ir.Model:
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    note_sizes(model, {**POSITIVE, **dict.fromkeys(may_be_zero, False)})
    EmptyOperandsPass(target)(model)
    make_names_unique(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


def operators(model):
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize(
    ("text", "symbol", "expected"),
    [
        (ATTENTION, "B", ["Size", "Size", "Mul", "Equal", "If"]),
        (ATTENTION, "T", ["Size", "Equal", "If"]),
        (ATTENTION, "S", ["Size", "Equal", "If"]),
        (MERGED, "S", ["Size", "Equal", "If"]),
        (LSTM, "T", ["Size", "Equal", "If"]),
        (RNN, "B", ["Size", "Equal", "If"]),
    ],
)
def test_operators_on_dimensions_that_may_be_0_are_guarded(target, text, symbol, expected):
    assert operators(guarded(text, target, **{symbol: True})) == expected


@pytest.mark.parametrize("text", [ATTENTION, MERGED, LSTM, RNN])
def test_operators_on_other_dimensions_stay(target, text):
    assert len(operators(guarded(text, target))) == 1


def test_a_target_that_takes_empty_operands_needs_no_guard(limited):
    assert operators(guarded(ATTENTION, limited(), B=True)) == ["Attention"]


def test_without_notes_only_the_number_0_is_empty(target):
    text = ATTENTION.replace("S", "0")
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    assert EmptyOperandsPass(target)(model).modified
    assert not EmptyOperandsPass(target)(ir.from_onnx_text(ATTENTION)).modified


def test_a_guarded_operator_is_not_guarded_again(target):
    model = guarded(ATTENTION, target, B=True)
    assert not EmptyOperandsPass(target)(model).modified


def test_attention_with_a_past_stays(target):
    text = f"""{HEAD} g (float[B,2,T,4] q, float[B,2,S,4] k, float[B,2,S,4] v, float[B,2,P,4] a, float[B,2,P,4] b)
        => (float[B,2,T,4] y, float[B,2,R,4] c, float[B,2,R,4] d) {{ y, c, d = Attention(q, k, v, , a, b) }}"""
    assert operators(guarded(text, target, B=True)) == ["Attention"]


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 2, 3), (2, 0, 3), (2, 2, 0), (2, 3, 4)])
@pytest.mark.parametrize("text", [ATTENTION, MERGED])
def test_attention_of_nothing_is_zero(target, text, batch, queries, keys):
    model = guarded(text, target, B=True, T=True, S=True)
    lengths, sizes = (queries, keys, keys), (4, 4, 3)
    shapes: list[tuple[int, ...]] = [(batch, 2, n, size) for n, size in zip(lengths, sizes, strict=True)]
    if text is MERGED:
        shapes = [(batch, n, 2 * size) for n, size in zip(lengths, sizes, strict=True)]
    feeds = {name: np.ones(shape, np.float32) for name, shape in zip("qkv", shapes, strict=True)}
    [y] = ReferenceEvaluator(ir.to_proto(model)).run(None, feeds)
    assert y.shape == (*shapes[0][:-1], shapes[2][-1])
    assert (y == (1 if keys else 0)).all()


@pytest.mark.parametrize(("steps", "batch"), [(0, 2), (3, 0)])
def test_the_last_states_of_no_steps_are_the_first(target, steps, batch):
    model = guarded(LSTM, target, T=True, B=True)
    states = {"h": np.full((1, batch, 2), 5, np.float32), "c": np.full((1, batch, 2), 7, np.float32)}
    feeds = {"x": np.ones((steps, batch, 3)), "w": np.ones((1, 8, 3)), "r": np.ones((1, 8, 2))}
    feeds = {**{name: array.astype(np.float32) for name, array in feeds.items()}, **states}
    y, h, c = ReferenceEvaluator(ir.to_proto(model)).run(None, feeds)
    assert y.shape == (steps, 1, batch, 2)
    np.testing.assert_array_equal(h, states["h"])
    np.testing.assert_array_equal(c, states["c"])


def test_states_that_are_not_given_are_zeros(target):
    model = guarded(RNN, target, T=True)
    feeds = {"x": np.ones((0, 2, 3)), "w": np.ones((1, 2, 3)), "r": np.ones((1, 2, 2))}
    _, h = ReferenceEvaluator(ir.to_proto(model)).run(None, {k: v.astype(np.float32) for k, v in feeds.items()})
    np.testing.assert_array_equal(h, np.zeros((1, 2, 2)))


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (0, True), (3, False), (ir.SymbolicDim("B"), True), (ir.SymbolicDim("T"), False), (ir.SymbolicDim("2*B"), True),
        (ir.SymbolicDim("2*T"), False), (ir.SymbolicDim("T - 1"), True), (ir.SymbolicDim("B + 1"), False), (ir.SymbolicDim(None), True),
    ],
)  # fmt: skip
def test_what_may_be_0(dim, expected):
    model = ir.from_onnx_text(ATTENTION)
    note_sizes(model, {"B": False, "T": True, "B + 1": True})
    assert size_notes(model).may_be_zero(dim) is expected
