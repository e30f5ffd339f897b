from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax2onnx_generation.decoders.rotary_layout import RotaryLayout

MODEL = """
<ir_version: 10, opset_import: ["": 23]>
rotate (float[2, 3, 4, 8] x, float[2, 3, 4] c, float[2, 3, 4] s) => (float[2, 4, 3, 8] y) <int64[3] merged = {0, 0, 32}, int64[4] split = {0, 0, 4, 8}> {
    flat = Reshape(x, merged)
    turned = RotaryEmbedding<num_heads = 4, interleaved = INTERLEAVED>(flat, c, s)
    heads = Reshape(turned, split)
    y = Transpose<perm = [0, 2, 1, 3]>(heads)
}
"""


def model(text: str) -> ir.Model:
    found = ir.from_onnx_text(text)
    shapes = {"flat": [2, 3, 32], "turned": [2, 3, 32], "heads": [2, 3, 4, 8]}
    for node in found.graph:
        for value in node.outputs:
            value.dtype = ir.DataType.FLOAT
            value.shape = ir.Shape(shapes[value.name]) if value.name in shapes else value.shape
    return found


def run(of: ir.Model) -> np.ndarray:
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.standard_normal(v.shape.numpy()).astype(np.float32) for v in of.graph.inputs}
    return ort.InferenceSession(ir.to_proto(of).SerializeToString()).run(None, feeds)[0]


@pytest.mark.parametrize("interleaved", [0, 1])
def test_heads_are_put_first_before_they_are_rotated(interleaved):
    before = model(MODEL.replace("INTERLEAVED", str(interleaved)))
    wanted = run(before)
    RotaryLayout()(before)
    rotation = before.graph.outputs[0].producer()
    assert (rotation.op_type, rotation.inputs[0].producer().op_type) == ("RotaryEmbedding", "Transpose")
    np.testing.assert_array_equal(run(before), wanted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("perm = [0, 2, 1, 3]>(heads)", "perm = [0, 2, 3, 1]>(heads)"),
        ("num_heads = 4", "num_heads = 2"),
    ],
)
def test_other_heads_and_transposes_stay(old, new):
    other = model(MODEL.replace("INTERLEAVED", "0").replace(old, new))
    RotaryLayout()(other)
    assert [node.op_type for node in other.graph] == ["Reshape", "RotaryEmbedding", "Reshape", "Transpose"]
