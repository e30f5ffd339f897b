"""`nnx.Module` as a function with named weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_core import Adapted

if TYPE_CHECKING:
    from flax import nnx

__all__ = ["adapt"]


def adapt(module: nnx.Module) -> Adapted:
    """Take the module apart, so that it can be rebuilt around the same arrays inside a trace.

    Whatever a call changes (statistics, caches, counts of random streams) is changed in the copy alone.
    """
    from flax import nnx

    graph, state = nnx.split(module)
    # An array that is an attribute without a variable around it is a leaf of the state as well.
    leaves = {
        path: leaf.get_value() if isinstance(leaf, nnx.Variable) else leaf for path, leaf in nnx.to_flat_state(state)
    }
    weights = {".".join(str(key) for key in path): leaf for path, leaf in leaves.items()}
    return Adapted(fresh=lambda: nnx.merge(graph, state, copy=True), weights=weights)
