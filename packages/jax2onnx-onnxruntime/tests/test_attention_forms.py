"""The form of `Attention` that is fastest, and that it computes the same."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax2onnx_onnxruntime._attention_forms import AttentionFormsPass

HEADER = '<ir_version: 10, opset_import: ["" : 23]>\n'


def _model(query: str, key: str, attributes: str = "", dtype: str = "float") -> ir.Model:
    body = (
        f"main ({dtype}[{query}] q, {dtype}[{key}] k) => ({dtype}[{query}] y) {{ y = Attention{attributes}(q, k, k) }}"
    )
    model = onnx.parser.parse_model((HEADER + body).replace("S + T", "S_T"))
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "S_T":
                dim.dim_param = "S + T"
    return ir.from_proto(onnx.shape_inference.infer_shapes(model))


def _operators(model: ir.Model) -> list[str]:
    result = AttentionFormsPass()(model).model
    onnx.checker.check_model(ir.to_proto(result), full_check=True)
    return [node.op_type for node in result.graph]


MERGED = "<q_num_heads = 2, kv_num_heads = 2>"
SCALED = "<q_num_heads = 2, kv_num_heads = 2, scale = 0.3>"


@pytest.mark.parametrize(
    ("query", "key", "attributes"),
    [
        ("B, 2, 1, 4", "B, 2, 7, 4", ""),
        ("B, 2, 1, 4", "B, 2, 7, 4", "<scale = 0.3>"),
        ("B, 2, T, 4", "B, 2, S + T, 4", "<is_causal = 1>"),
        ("B, T, 8", "B, 5, 8", SCALED),
        ("B, 1, 8", "B, S, 8", MERGED),
    ],
)
def test_the_query_carries_the_scale_where_there_may_be_one(query: str, key: str, attributes: str) -> None:
    sizes = {"B": 2, "T": 3, "S": 5, "S + T": 8}
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.normal(size=[sizes.get(d.strip()) or int(d) for d in dims.split(",")]).astype(np.float32)
        for name, dims in (("q", query), ("k", key))
    }
    model, results = _model(query, key, attributes), []
    before = ir.to_proto(model).SerializeToString()
    assert _operators(model) == ["Mul", "Attention"]
    for content in (before, ir.to_proto(model).SerializeToString()):
        session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
        results.extend(session.run(None, feeds))
    np.testing.assert_allclose(results[1], results[0], 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("query", "key", "attributes", "dtype"),
    [
        ("B, 2, 5, 4", "B, 2, 5, 4", "", "float"),
        ("B, T, 8", "B, T, 8", MERGED, "float"),
        ("B, T, 8", "B, S, 8", MERGED, "float"),
        ("B, 2, 1, 4", "B, 2, 7, 4", "<scale = 1.0>", "float"),
        ("B, 2, 1, 4", "B, 2, 7, 4", "", "float16"),
    ],
)
def test_other_attention_stays(query: str, key: str, attributes: str, dtype: str) -> None:
    assert _operators(_model(query, key, attributes, dtype)) == ["Attention"]
