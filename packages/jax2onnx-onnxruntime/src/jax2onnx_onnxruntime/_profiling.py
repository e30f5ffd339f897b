"""The time that ONNX Runtime takes for each node of a model."""

from __future__ import annotations

import bisect
import collections
import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.traversal import all_nodes

from jax2onnx_onnxruntime._compat import onnxruntime
from jax2onnx_onnxruntime.loading import OrtModel, default_options

__all__ = ["node_times"]

_KERNEL = "_kernel_time"


def node_times(model: ir.Model, feeds: Mapping[str, Array], runs: int) -> dict[str, float]:
    """The median of the seconds that nodes take, after a run that is not counted; with those of the nodes in their bodies.

    ONNX Runtime does not fuse activations into products for it, and keeps the layout of images, so that each node takes its own
    time. What it puts together nevertheless has the name of a node that is part of it, with something added.
    """
    known = {node.name for node in all_nodes(model) if node.name}
    times: dict[str, list[float]] = collections.defaultdict(lambda: [0.0] * runs)
    for run, name, seconds in _measured(model, feeds, runs):
        while name and name not in known:
            name = name[: max(name.rfind("/"), name.rfind("_"), 0)]
        if name and run:
            times[name][run - 1] += seconds
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def _measured(model: ir.Model, feeds: Mapping[str, Array], runs: int) -> Iterator[tuple[int, str, float]]:
    """Each time that a kernel was run: the number of the run, the name of its node, and seconds."""
    with tempfile.TemporaryDirectory() as directory:
        options = default_options()
        options.graph_optimization_level = onnxruntime().GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(directory) / "profile")
        loaded = OrtModel(model, options=options)
        for _ in range(runs + 1):
            loaded(feeds)
        events = json.loads(Path(loaded.session.end_profiling()).read_text())
    starts = sorted(event["ts"] for event in events if event["name"] == "model_run")
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith(_KERNEL):
            run = bisect.bisect(starts, event["ts"]) - 1
            yield run, event["name"].removesuffix(_KERNEL), event["dur"] / 1e6
