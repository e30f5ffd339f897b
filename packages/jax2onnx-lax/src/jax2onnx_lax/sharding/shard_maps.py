"""`shard_map` over several devices: the same on whole arrays."""

from __future__ import annotations

import jax
from jax2onnx_core import Rules

__all__ = ["rules"]

rules = Rules()


@rules.decompose("shard_map")
def shard_map(*operands: jax.Array, **params: object) -> list[jax.Array]:
    """The results of the body on all devices of the mesh together, computed on whole arrays."""
    from jax2onnx_lax.sharding.programs import on_whole_arrays  # ten modules, which only a mesh needs

    return on_whole_arrays(operands, params)
