"""The positions, masks and counters of a step, computed from the tokens and the mask that runtimes feed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_generation.decoders.step_inputs import StepInputs
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import standard_target
from onnx.reference import ReferenceEvaluator

#: Three tokens after two, the first of which pads the first text.
SEEN = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
POSITIONS = np.array([[1, 2, 3], [2, 3, 4]])
FEEDS = {"tokens": np.zeros((2, 3), np.int64), "attention_mask": SEEN.astype(np.int64), "position_ids": POSITIONS}
PLACES = np.arange(2, 5)
PAST = np.arange(5) <= PLACES[:, None]
#: The same in a cache of 7 places.
CACHED, CACHED_PAST = np.pad(SEEN, [(0, 0), (0, 2)]), np.arange(7) <= PLACES[:, None]


def value(text: str) -> ir.Value:
    """A value of a type such as `int64[B,T]`."""
    dtype, _, dims = text.rstrip("]").partition("[")
    shape = [int(dim) if dim.isdecimal() else ir.SymbolicDim(dim) for dim in dims.split(",") if dim]
    return ir.Value(name="like", type=ir.TensorType(ir.DataType[dtype.upper()]), shape=ir.Shape(shape))


def computed(make: Callable[[StepInputs], Any]) -> np.ndarray:
    """The value that `make` computes from the inputs of a step."""
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["": 20]> main (int64[B,T] tokens) => () {}')
    (tokens,) = model.graph.inputs
    steps = StepInputs(GraphEditor(model.graph, opset=20, target=standard_target), tokens, ir.SymbolicDim("K"))
    made = make(steps)
    model.graph.inputs[:] = [tokens, steps.mask, *([] if steps.positions is None else [steps.positions])]
    if made.is_graph_input():
        return FEEDS[str(made.name)]
    made.name = "made"
    model.graph.outputs.append(made)
    feeds = {str(x.name): FEEDS[str(x.name)] for x in model.graph.inputs}
    (result,) = ReferenceEvaluator(ir.to_proto(model)).run(None, feeds)
    return np.asarray(result)


def assert_is(found: np.ndarray, expected: Any, dtype: type[np.generic]) -> None:
    assert (found.shape, found.dtype.type) == (np.shape(expected), dtype)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("like", "expected", "dtype"),
    [
        ("int64[B,T]", POSITIONS, np.int64),
        ("int32[B,T]", POSITIONS, np.int32),
        ("int32[1,T]", PLACES[None], np.int32),
        ("int64[T]", PLACES, np.int64),
        ("int32[B]", POSITIONS[:, 0], np.int32),
        ("int32", 2, np.int32),
    ],
)
def test_positions(like, expected, dtype):
    assert_is(computed(lambda steps: steps.positions_like(value(like))), expected, dtype)


@pytest.mark.parametrize("like", ["int64[T,B]", "int64[B,1]", "int64[2,T]", "int64[B,T,1]", "int64[K]"])
def test_positions_of_another_shape_are_refused(like):
    with pytest.raises(OptionError, match=r"The positions like: .* have another shape than \[B, T\], \[T\], \[B\]"):
        computed(lambda steps: steps.positions_like(value(like)))


@pytest.mark.parametrize(("like", "expected"), [("int32", 2), ("int32[1]", [2]), ("int32[B]", [2, 2])])
def test_the_number_of_tokens_before_a_step(like, expected):
    assert_is(computed(lambda steps: steps.counter(value(like))), expected, np.int32)


def both(past: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The keys that each token of each text sees: a token that pads sees itself."""
    itself = np.arange(past.shape[1]) == PLACES[:, None]
    return past & (seen[:, None] | itself)


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ("[B,{}]", lambda past, seen: seen),
        ("[B,1,{}]", lambda past, seen: seen[:, None]),
        ("[B,1,1,{}]", lambda past, seen: seen[:, None, None]),
        ("[T,{}]", lambda past, seen: past),
        ("[1,T,{}]", lambda past, seen: past[None]),
        ("[1,1,T,{}]", lambda past, seen: past[None, None]),
        ("[B,T,{}]", both),
        ("[B,1,T,{}]", lambda past, seen: both(past, seen)[:, None]),
    ],
)
@pytest.mark.parametrize("is_cached", [False, True])
def test_masks(like, expected, is_cached):
    def make(dtype: str, *, adds: bool = False) -> np.ndarray:
        keys = "C" if is_cached else "K"
        given = value(dtype + like.format(keys))
        return computed(lambda steps: steps.mask_like(
            given, ir.SymbolicDim(keys), steps.axis_size(value("int64[B,7]"), 1) if is_cached else None, adds=adds
        ))  # fmt: skip

    visible = expected(CACHED_PAST, CACHED) if is_cached else expected(PAST, SEEN)
    assert_is(make("bool"), visible, np.bool_)
    assert_is(make("int32"), visible, np.int32)
    assert_is(make("float", adds=True), np.where(visible, 0, np.finfo(np.float32).min), np.float32)


@pytest.mark.parametrize(
    "like", ["[K]", "[1,K]", "[1,1,K]", "[K,B]", "[T,B,K]", "[2,K]", "[B,2,T,K]", "[B,1,1,1,K]", "[K,T]", ""]
)
def test_masks_with_other_axes_are_refused(like):
    with pytest.raises(
        OptionError, match=r"The mask like: .* has other axes than the sequences \(B\), heads \(1\), tok"
    ):
        computed(lambda steps: steps.mask_like(value(f"bool{like}"), ir.SymbolicDim("K"), None, adds=False))


@pytest.mark.parametrize(("text", "expected"), [("int64[B,7]", 7), ("int64[B,T]", 3)])
def test_the_size_of_an_axis(text, expected):
    given = value(text)

    def make(steps: StepInputs) -> Any:
        return steps.axis_size(steps.tokens if "T" in text else given, 1)

    assert_is(computed(make), [expected], np.int64)
