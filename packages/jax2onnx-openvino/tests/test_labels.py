"""What the passes of the target make has labelled shapes: sorts and sums in several steps, transforms of both sides."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_openvino._stable_sorts import StableSortsPass


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: jnp.argsort(x, axis=1, stable=True), [("B", "T + 1", 3)]),
        (lambda x: jax.lax.top_k(x, 2), [("B", 5)]),
        (lambda x: jnp.fft.rfft(x, axis=1), [("B", 256)]),
        (lambda x: x.sum((0, 2)), [(("B", "T", 3), "int32")]),
    ],
    ids=["argsort", "top_k", "rfft", "sum"],
)
def test_every_value_has_a_labelled_shape(function, inputs):
    program = to_onnx(function, inputs, target="openvino")
    assert program.check_symbols() == []


def test_between_neighbours_there_is_one_value_less():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
    g (float[B, T, 3] x, int64[1] k) => (int64[B, K, 3] i) {
        v, i = TopK<axis = 1>(x, k)
    }""")
    StableSortsPass()(model)
    (counts,) = (node for node in model.graph if node.op_type == "CumSum")
    assert counts.outputs[0].shape == ["B", "T - 1", 3]
