"""`node_times`: how long each node of a model takes."""

from __future__ import annotations

from collections.abc import Mapping

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.traversal import all_nodes, subgraphs

from jax2onnx_runtime.runtimes import Runtime

__all__ = ["node_times", "own_times"]

_RUNS = 10


def node_times(model: ir.Model, runtime: Runtime, feeds: Mapping[str, Array]) -> dict[str, float]:
    """The median of the seconds of each node in ten runs, by its name, without those of the nodes in its bodies.

    Raises:
      TargetError: the runtime is not installed, or does not tell.
    """
    return own_times(model, runtime.installed().times(model, feeds, _RUNS))


def own_times(model: ir.Model, times: Mapping[str, float]) -> dict[str, float]:
    """The times of nodes without those of the nodes in their bodies, which are counted themselves."""
    own = dict(times)
    for node in all_nodes(model):
        if node.name in own:
            inner = (body_node for body in subgraphs(node) for body_node in body)
            own[node.name] = max(own[node.name] - sum(times.get(body_node.name or "", 0.0) for body_node in inner), 0.0)
    return own
