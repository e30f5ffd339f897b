"""Times of nodes as ONNX Runtime measures them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import TargetError
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_runtime.node_times import own_times
from jax2onnx_runtime.runtimes import reference_runtime

MODEL = """<ir_version: 10, opset_import: ["" : 21]> main (float[N, 64] x, int64 n) => (float[N, 64] z)
{
    a = Sin(x)
    b = Loop(n, , a) <body = step (int64 i, bool go, float[N, 64] s) => (bool on, float[N, 64] t) {
        on = Identity(go)
        t = Cos(s)
    }>
    z = Tan(b)
}"""


def test_each_node_has_its_time_and_a_loop_that_of_its_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = ir.from_onnx_text(MODEL)
    for node in all_nodes(model):
        node.name = f"block/{node.op_type}"
    feeds: dict[str, np.ndarray] = {"x": np.ones((512, 64), np.float32), "n": np.array(5, np.int64)}
    times = OrtRuntime().times(model, feeds, 3)
    assert times.keys() >= {"block/Sin", "block/Cos", "block/Loop", "block/Tan"}
    assert all(seconds > 0 for seconds in times.values())
    assert times["block/Loop"] > times["block/Cos"]
    own = own_times(model, times)
    assert own["block/Cos"] == times["block/Cos"]
    assert 0 <= own["block/Loop"] < times["block/Loop"]
    assert not list(tmp_path.iterdir())


def test_a_target_that_does_not_tell_says_so() -> None:
    with pytest.raises(TargetError, match="does not tell how long"):
        reference_runtime.times(ir.from_onnx_text(MODEL), {}, 1)
