"""The reference runtime runs what the standard says and `onnx.reference` does not."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.errors import TargetError
from jax2onnx_runtime.runtimes import reference_runtime

HEADER = '<ir_version: 10, opset_import: ["" : {opset}]>\n'


def _run(text: str, opset: int = 20, **feeds: np.ndarray) -> list[np.ndarray]:
    model = ir.from_proto(onnx.parser.parse_model(HEADER.replace("{opset}", str(opset)) + text))
    return reference_runtime.load(model)(feeds)


@pytest.mark.parametrize(("pads", "axes", "expected"), [
    ([-3, 4], [0], [0, 0, 0]), ([1, -1], [0], [0, 1]), ([-1, 0], [0], [2]), ([0, -2], [-1], []), ([2, -1], [0], [0, 0, 1]),
])  # fmt: skip
def test_a_pad_by_negative_amounts_removes_elements(pads: list[int], axes: list[int], expected: list[float]) -> None:
    text = "f (float[N] x, int64[2] pads, int64[1] axes) => (float[M] y) { y = Pad(x, pads, , axes) }"
    (y,) = _run(text, x=np.array([1, 2], np.float32), pads=np.array(pads), axes=np.array(axes))
    np.testing.assert_array_equal(y, np.array(expected, np.float32))


def test_a_pad_of_all_axes_is_that_of_numpy() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = 'f (float[2,3] x, int64[4] pads) => (float[A,B] y) { y = Pad <mode = "edge"> (x, pads) }'
    (y,) = _run(text, x=x, pads=np.array([1, -1, 0, 2]))
    np.testing.assert_array_equal(y, np.pad(x, ((1, 0), (0, 2)), mode="edge")[:, 1:])


def test_a_pad_of_an_older_opset_is_that_of_the_opset() -> None:
    (y,) = _run("f (float[2] x) => (float[4] y) { y = Pad <pads = [1, 1]> (x) }", opset=2, x=np.ones(2, np.float32))
    np.testing.assert_array_equal(y, np.array([0, 1, 1, 0], np.float32))


LOOP = """f (int64 n, bool go, float[2,2] x) => (float[2,2] last, float[N,2,2] rows, float[N] sums) {
    last, rows, sums = Loop (n, go, x) <body = step (int64 i, bool on, float[2,2] c) => (bool again, float[2,2] next, float[2,2] row, float sum) {
        again = Identity (on)
        next = Add (c, x)
        row = Identity (c)
        sum = ReduceSum <keepdims = 0> (c)
    }>
}"""


@pytest.mark.parametrize(("count", "goes_on"), [(0, True), (3, False), (1, True), (3, True)])
def test_a_loop_stacks_results_of_any_rank_over_any_number_of_iterations(count: int, goes_on: bool) -> None:
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    last, rows, sums = _run(LOOP, n=np.array(count), go=np.array(goes_on), x=x)
    count = count if goes_on else 0
    np.testing.assert_array_equal(last, x * (count + 1))
    np.testing.assert_array_equal(rows, x * np.arange(1, count + 1, dtype=np.float32)[:, None, None])
    np.testing.assert_array_equal(sums, 6 * np.arange(1, count + 1, dtype=np.float32))
    assert rows.dtype == np.float32


def test_a_loop_without_a_condition_begins() -> None:
    text = LOOP.replace("(n, go, x)", '(n, "", x)')
    last, _, _ = _run(text, n=np.array(2), go=np.array(False), x=np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(last, np.full((2, 2), 3, np.float32))


SCAN = """f (float s, float[3,N] x) => (float last, float[3,N] y) {
    last, y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1],
        body = step (float c, float[3] row) => (float next, float[3] out) {
            sum = ReduceSum <keepdims = 0> (row)
            next = Add (c, sum)
            out = Add (row, c)
        }> (s, x)
}"""


@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_a_scan_goes_backwards_along_any_axis(length: int) -> None:
    x = np.arange(3 * length, dtype=np.float32).reshape(3, length)
    last, y = _run(SCAN, s=np.array(1, np.float32), x=x)
    sums = x.sum(0)
    behind = 1 + np.cumsum(sums[::-1])[::-1] - sums
    np.testing.assert_array_equal(last, 1 + sums.sum())
    np.testing.assert_array_equal(y, x + behind)


def test_what_cannot_be_run_is_an_error_of_ours() -> None:
    text = "f (float[2] x, int64[1] shape) => (float[N] y) { y = Reshape(x, shape) }"
    with pytest.raises(TargetError, match=r"onnx\.reference cannot run the model: ValueError: cannot reshape"):
        _run(text, x=np.ones(2, np.float32), shape=np.array([3]))
