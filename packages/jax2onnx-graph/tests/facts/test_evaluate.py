"""Evaluation by NumPy against ONNX's reference implementation."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.evaluate import MAX_ELEMENTS, evaluate
from onnx.reference import ReferenceEvaluator

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
ARRAYS = {
    "x": np.array([[-7, 3, 5], [6, -2, 0]]),
    "y": np.array([2, -3, 4]),
    "b": np.array([[True, False, True], [False, False, True]]),
    "i": np.array([1, -1, 0]),
    "one": np.array([1]),
    "two": np.array([2]),
    "shape": np.array([3, -1]),
    "wide": np.array([2, 1, 3]),
    "zero": np.array(0),
    "nine": np.array(9),
    "four": np.array(4),
    "small": np.array([100, 100, 100], np.int8),
    "half": np.array([0.5, 1.5], np.float32),
    "empty": np.zeros((0, 3), np.int64),
    "ends": np.array([-3, 2]),
    "before": np.array([-4]),
    "behind": np.array([3]),
    "none": np.array([0]),
    "nothing": np.zeros(0, np.int64),
    "minus1": np.array([-1]),
    "ends1": np.array([-9]),
    "first": np.array([-3]),
}


def model_of(line: str) -> ir.Model:
    types = {np.dtype(np.int64): "int64", np.dtype(bool): "bool", np.dtype(np.int8): "int8", np.dtype("f4"): "float"}
    formal = ", ".join(f"{types[a.dtype]}[{','.join(map(str, a.shape))}] {n}" for n, a in ARRAYS.items())
    return ir.from_onnx_text(HEAD + f"g ({formal}) => (r) {{ {line} }}")


def computed(line: str) -> np.ndarray | None:
    node = model_of(line).graph[0]
    return evaluate(node, [None if value is None else ARRAYS[value.name or ""] for value in node.inputs])


@pytest.mark.parametrize(
    "line",
    [
        "r = Add(x, y)",
        "r = Sub(x, y)",
        "r = Mul(x, y)",
        "r = Mul(small, small)",
        "r = Mod(x, y)",
        "r = Mod<fmod=1>(x, y)",
        "r = Max(x, y, one)",
        "r = Min(x, y)",
        "r = Neg(x)",
        "r = Abs(x)",
        "r = Equal(x, y)",
        "r = Less(x, y)",
        "r = LessOrEqual(x, y)",
        "r = Greater(x, y)",
        "r = GreaterOrEqual(x, y)",
        "r = And(b, b)",
        "r = Or(b, b)",
        "r = Not(b)",
        "r = Where(b, x, y)",
        "r = Concat<axis=0>(y, one)",
        "r = Concat<axis=-1>(x, x)",
        "r = Gather<axis=1>(x, i)",
        "r = Gather(y, ends)",
        "r = Gather(y, zero)",
        "r = Slice(x, none, one)",
        "r = Slice(x, one, before, one, minus)",
        "r = Concat<axis=0>(empty, x)",
        "r = Slice(x, one, two, one)",
        "r = Slice(y, zero1, nine1, zero1, two)",
        "r = Squeeze(one)",
        "r = Unsqueeze(x, wide_axes)",
        "r = Reshape(x, shape)",
        "r = Expand(y, wide)",
        "r = Cast<to=6>(x)",
        "r = Cast<to=9>(x)",
        "r = Cast<to=3>(b)",
        "r = Cast<to=1>(x)",
        "r = Cast<to=11>(b)",
        "r = ReduceProd(x, one)",
        "r = ReduceSum<keepdims=0>(x)",
        "r = ReduceSum(small)",
        "r = ReduceMax(x, one)",
        "r = ReduceMin<keepdims=0>(x, one)",
        "r = ReduceSum(x, nothing)",
        "r = ReduceProd<noop_with_empty_axes=1, keepdims=0>(x, one)",
        "r = Slice(y, first, ends1, none, minus1)",
        "r = Range(zero, nine, four)",
        "r = Transpose(x)",
        "r = Transpose<perm=[1,0]>(x)",
        "r = Identity(x)",
    ],
)
def test_results_are_those_of_the_reference(line, monkeypatch):
    monkeypatch.setitem(ARRAYS, "zero1", np.array([0]))
    monkeypatch.setitem(ARRAYS, "minus", np.array([-1]))
    monkeypatch.setitem(ARRAYS, "nine1", np.array([9]))
    monkeypatch.setitem(ARRAYS, "wide_axes", np.array([0, -1]))
    (wanted,) = ReferenceEvaluator(ir.to_proto(model_of(line))).run(None, ARRAYS)
    got = computed(line)
    assert got is not None
    assert got.dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(got, wanted, strict=False)
    assert got.shape == np.shape(wanted)


def test_integer_division_truncates():
    np.testing.assert_array_equal(computed("r = Div(x, y)"), [[-3, -1, 1], [3, 0, 0]])


@pytest.mark.parametrize(
    "line",
    [
        "r = Div(y, zero)",
        "r = Mod(y, zero)",
        "r = Gather(y, nine)",
        "r = Gather(y, behind)",
        "r = Gather(y, before)",
        "r = Slice(x, none, one, none, none)",
        "r = ReduceMax(empty)",
        "r = ReduceMin(empty, none)",
        "r = Range(zero, nine, zero)",
        "r = Reshape(x, zero)",
        "r = ReduceSum<noop_with_empty_axes=1>(x)",
        "r = ReduceSum<noop_with_empty_axes=1>(x, nothing)",
        "r = Slice(y, before, ends1, none, minus1)",
        "r = Add(half, half)",
        "r = Cast<to=11>(half)",
        "r = Exp(half)",
        "r = BitwiseXor(x, y)",
    ],
)
def test_what_is_open_or_not_integer_arithmetic_is_not_evaluated(line):
    assert computed(line) is None


def test_large_results_are_not_computed(monkeypatch):
    monkeypatch.setitem(ARRAYS, "large", np.array([MAX_ELEMENTS, 1 << 40]))
    monkeypatch.setitem(ARRAYS, "limit", np.array(1 << 40))
    monkeypatch.setitem(ARRAYS, "most", np.array([MAX_ELEMENTS]))
    monkeypatch.setitem(ARRAYS, "more", np.array([MAX_ELEMENTS + 1]))
    monkeypatch.setitem(ARRAYS, "last", np.array(4 * MAX_ELEMENTS))
    monkeypatch.setitem(ARRAYS, "beyond", np.array(4 * MAX_ELEMENTS + 1))
    assert computed("r = Expand(one, large)") is None
    assert computed("r = Range(zero, limit, four)") is None
    for line in ("r = Expand(one, most)", "r = Range(zero, last, four)"):
        found = computed(line)
        assert found is not None
        assert found.size == MAX_ELEMENTS
    assert computed("r = Expand(one, more)") is None
    assert computed("r = Range(zero, beyond, four)") is None
