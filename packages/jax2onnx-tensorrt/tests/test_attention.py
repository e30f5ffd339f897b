"""Attention in the form that TensorRT's parser takes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.axes import rank_of
from jax2onnx_tensorrt._attention import AttentionPass
from onnx.reference import ReferenceEvaluator

FEATURES = "float[1,5,8] q, float[1,5,8] k, float[1,5,8] v"
HEADS = "float[1,2,5,4] q, float[1,2,5,4] k, float[1,2,5,4] v"
COUNTS = "<q_num_heads = 2, kv_num_heads = 2>"


@pytest.mark.parametrize(
    ("operands", "attributes"), [(FEATURES, COUNTS), (HEADS, "")], ids=["heads in features", "heads as an axis"]
)
@pytest.mark.parametrize("mask", [(5, 5), (2, 5, 5), (1, 2, 5, 5), None])
def test_operands_and_masks_have_four_axes(operands, attributes, mask):
    given = "" if mask is None else f", bool[{','.join(map(str, mask))}] m"
    text = f"g ({operands}{given}) => (y) {{ y = Attention{attributes}(q, k, v{', m' if given else ''}) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> {text}')
    model = onnx.shape_inference.infer_shapes(model)
    random = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for one in model.graph.input:
        shape = [dim.dim_value for dim in one.type.tensor_type.shape.dim]
        feeds[one.name] = random.standard_normal(shape).astype(np.float32)
    if mask is not None:
        feeds["m"] = (feeds["m"] > 0) | np.eye(5, dtype=bool)
    result = AttentionPass()(ir.from_proto(model)).model
    (node,) = (node for node in result.graph if node.op_type == "Attention")
    assert [rank_of(value) for value in node.inputs] == [4] * (3 if mask is None else 4)
    got, want = (np.asarray(*ReferenceEvaluator(one).run(None, feeds)) for one in (ir.to_proto(result), model))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
