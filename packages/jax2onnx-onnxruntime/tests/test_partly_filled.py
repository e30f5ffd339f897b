"""`Attention` on buffers that may be mostly empty gives the same from their filled part."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_onnxruntime._partly_filled import PartlyFilledPass

PLACES, HEADS, FEATURES = 1024, 2, 4
HEADS_FIRST = "float[B,4,T,4] q, float[B,2,1024,4] k, float[B,2,1024,4] v"
MERGED = "float[B,T,16] q, float[B,1024,8] k, float[B,1024,8] v"
GROUPED = "<q_num_heads = 4, kv_num_heads = 2>"


def _model(operands: str, mask: str, attributes: str = "", body: str = "m = Identity(given)") -> ir.Model:
    """Attention by a mask that is computed from the input `given`."""
    text = f"""<ir_version: 11, opset_import: ["" : 23]>
      main ({operands}, {mask} given) => ({operands.partition(" q")[0]} y) {{ {body} y = Attention{attributes}(q, k, v, m) }}"""
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))


def _rewritten(model: ir.Model) -> Counter[str]:
    PartlyFilledPass()(model)
    make_names_unique(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return Counter(node.op_type for node in all_nodes(model))


def _run(model: ir.Model, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, feeds)
    return result


def _feeds(model: ir.Model, batch: int, queries: int, seen: np.ndarray, hidden: float | None) -> dict[str, np.ndarray]:
    """Random operands; what no query sees is NaN."""
    rng, feeds = np.random.default_rng(0), {}
    sizes = {"B": batch, "T": queries}
    for value in model.graph.inputs[:3]:
        dims = [dim if isinstance(dim, int) else sizes[str(dim)] for dim in value.shape]
        feeds[str(value.name)] = rng.standard_normal(dims, np.float32)
    mask = seen if hidden is None else np.where(seen, rng.standard_normal(seen.shape), hidden).astype(np.float32)
    return {**feeds, "given": mask}


@pytest.mark.parametrize("operands", [HEADS_FIRST, MERGED])
@pytest.mark.parametrize("hidden", [None, -np.inf, -1e9, float(np.finfo(np.float32).min) * 0.7])
@pytest.mark.parametrize("filled", [1, 3, 511, 512, 513, 1024])
def test_the_filled_part_gives_what_the_whole_gives(operands, hidden, filled):
    attributes = GROUPED if operands == MERGED else ""
    before, after = (
        _model(operands, f"{'bool' if hidden is None else 'float'}[B,1,T,1024]", attributes) for _ in range(2)
    )
    assert _rewritten(after)["If"] == 1
    rng = np.random.default_rng(filled)
    for batch, queries in ((1, 1), (1, 3), (2, 3)):
        seen = (np.arange(PLACES) < filled) & (rng.random((batch, 1, queries, PLACES)) < 0.8)
        seen[..., filled - 1] = True
        feeds = _feeds(before, batch, queries, seen, hidden)
        np.testing.assert_allclose(_run(after, feeds), _run(before, feeds), 1e-5, 1e-6)


@pytest.mark.parametrize("hidden", [-1e9, float(np.finfo(np.float32).min) * 0.7])
def test_a_query_that_sees_nothing_averages_all_places(hidden):
    before, after = (_model(HEADS_FIRST, "float[B,1,T,1024]") for _ in range(2))
    _rewritten(after)
    seen = np.broadcast_to(np.arange(PLACES) < 5, (2, 1, 3, PLACES)).copy()
    seen[1, 0, 1] = False
    feeds = _feeds(before, 2, 3, seen, hidden)
    expected = _run(before, feeds)
    np.testing.assert_allclose(_run(after, feeds), expected, 1e-4, 1e-5)
    np.testing.assert_allclose(expected[1, :2, 1], feeds["v"][1, :1].mean(1).repeat(2, 0), 1e-4, 1e-5)


def test_a_mask_that_is_not_a_number_hides_nothing():
    before, after = (_model(HEADS_FIRST, "float[B,1,T,1024]") for _ in range(2))
    _rewritten(after)
    seen = np.broadcast_to(np.arange(PLACES) < 5, (1, 1, 2, PLACES))
    feeds = _feeds(before, 1, 2, seen, -np.inf)
    feeds["given"][0, 0, 1, 700] = np.nan
    for model in (before, after):
        assert np.isnan(_run(model, feeds)[0, :, 1]).all()


def test_layers_share_how_far_the_mask_goes():
    text = f"""<ir_version: 11, opset_import: ["" : 23]>
      main ({HEADS_FIRST}, bool[1,1024] given) => (float[B,4,T,4] y)
      {{ m = Not(given) h = Attention(q, k, v, m) y = Attention(h, k, v, m) }}"""
    found = _rewritten(ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))))
    assert found["ArgMax"] == 1
    assert found["If"] == 2
    assert found["Attention"] == 4


@pytest.mark.parametrize(
    ("operands", "mask", "attributes", "body"),
    [
        ("float[1,4,1,4] q, float[1,2,512,4] k, float[1,2,512,4] v", "bool[1,512]", "", "m = Not(given)"),
        ("float[1,4,1,4] q, float[1,2,S,4] k, float[1,2,S,4] v", "bool[1,S]", "", "m = Not(given)"),
        ("float[1,4,1024,4] q, float[1,2,1024,4] k, float[1,2,1024,4] v", "bool[1024,1024]", "", "m = Not(given)"),
        (HEADS_FIRST, "float16[1,1]", "", f"m = Constant<value = bool[1,1024] {{{','.join('1' * 1024)}}}>()"),
        (HEADS_FIRST, "bool[B,1,T,1024]", "<is_causal = 1>", "m = Not(given)"),
    ],
)  # fmt: skip
def test_other_attention_stays(operands, mask, attributes, body):
    assert "If" not in _rewritten(_model(operands, mask, attributes, body))
