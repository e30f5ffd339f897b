"""The shapes of what the passes of the target make: sorts in several steps, and transforms of both sides."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax2onnx_core import to_onnx


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: jnp.argsort(x, axis=1, stable=True), [("B", "T + 1", 3)]),
        (lambda x: jax.lax.top_k(x, 2), [("B", 5)]),
        (lambda x: jnp.fft.rfft(x, axis=1), [("B", 256)]),
    ],
    ids=["argsort", "top_k", "rfft"],
)
def test_every_value_has_a_labelled_shape(function, inputs):
    program = to_onnx(function, inputs, target="openvino")
    assert program.check_symbols() == []


def test_between_neighbours_there_is_one_value_less():
    program = to_onnx(lambda x: jnp.argsort(x, axis=1, stable=True), [("B", "T + 1", 3)], target="openvino")
    (counts,) = (node for node in program.model.graph if node.op_type == "CumSum")
    assert counts.outputs[0].shape == ["B", "T + 1 - 1", 3]
