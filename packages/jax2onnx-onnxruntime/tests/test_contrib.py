from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from jax2onnx_graph.targets import standard_target
from jax2onnx_onnxruntime.target import OnnxRuntime
from jax2onnx_onnxruntime.web import Web
from onnx import TensorProto, helper

_LINEAR_ATTENTION = "com.microsoft.LinearAttention"
_HEADS, _FEATURES = 2, 8


def test_the_newest_version_has_linear_attention_for_float32():
    assert OnnxRuntime().supports(_LINEAR_ATTENTION, np.dtype(np.float32), 23)
    assert not OnnxRuntime().supports(_LINEAR_ATTENTION, np.dtype(np.float64), 23)


@pytest.mark.parametrize("target", [standard_target, OnnxRuntime("1.23"), Web()], ids=lambda target: target.name)
def test_others_have_no_linear_attention(target):
    assert not target.supports(_LINEAR_ATTENTION, np.dtype(np.float32), 23)


def _session(rule):
    names = ["q", "k", "v", "s", "g" if "gated" in rule else "", "b" if "delta" in rule else ""]
    node = helper.make_node(
        "LinearAttention", names[: 6 if "delta" in rule else 5 if rule == "gated" else 4], ["y", "last"],
        domain="com.microsoft", update_rule=rule, q_num_heads=_HEADS, kv_num_heads=_HEADS, scale=1.0,
    )  # fmt: skip
    inputs, outputs = (
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in group if n]
        for group in (names, node.output)
    )
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def _by_loop(rule, q, k, v, s, g, b):
    results = []
    for t in range(q.shape[1]):
        s = s * np.exp(g[:, t])[..., None] if "gated" in rule else s
        row = v[:, t]
        row = (row - np.einsum("bhkv,bhk->bhv", s, k[:, t])) * b[:, t, :, None] if "delta" in rule else row
        s = s + k[:, t, :, :, None] * row[:, :, None, :]
        results.append(np.einsum("bhkv,bhk->bhv", s, q[:, t]))
    return np.stack(results, 1), s


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_special_values_come_out_of_linear_attention_as_of_a_loop(rule):
    session = _session(rule)
    for seed in range(20):
        random = np.random.default_rng(seed)
        q, k, v, g = (random.normal(size=(2, 7, _HEADS, _FEATURES)).astype(np.float32) / 3 for _ in range(4))
        s, b = random.normal(size=(2, _HEADS, _FEATURES, _FEATURES)), random.random((2, 7, _HEADS))
        operands: dict[str, np.ndarray] = {
            "q": q,
            "k": k,
            "v": v,
            "s": s.astype(np.float32),
            "g": g,
            "b": b.astype(np.float32),
        }
        for x in operands.values():
            x.reshape(-1)[random.integers(x.size)] = random.choice([np.nan, np.inf, -np.inf, 0.0])
        with np.errstate(all="ignore"):
            y, last = _by_loop(rule, *operands.values())
        wanted = {i.name for i in session.get_inputs()}
        feeds = {n: x if n in "sb" else x.reshape(2, 7, -1) for n, x in operands.items() if n in wanted}
        found = session.run(None, feeds)
        np.testing.assert_allclose(found[0].reshape(y.shape), y, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[1], last, rtol=1e-4, atol=1e-4)
