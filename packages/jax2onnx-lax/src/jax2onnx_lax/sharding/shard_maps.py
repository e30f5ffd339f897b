"""`shard_map` over several devices: the same on whole arrays."""

from __future__ import annotations

import jax
from jax2onnx_core import Rules

from jax2onnx_lax.sharding.bodies import BODIES, on_mesh
from jax2onnx_lax.sharding.collectives import COLLECTIVES
from jax2onnx_lax.sharding.composites import COMPOSITES
from jax2onnx_lax.sharding.control_flow import CONTROL_FLOW
from jax2onnx_lax.sharding.interpreter import Interpreter
from jax2onnx_lax.sharding.propagation import PROPAGATION
from jax2onnx_lax.sharding.sharded_arrays import whole

__all__ = ["rules"]

rules = Rules()

_RULES = {**PROPAGATION, **COLLECTIVES, **CONTROL_FLOW, **BODIES, **COMPOSITES}


@rules.decompose("shard_map")
def shard_map(*operands: jax.Array, **params: object) -> list[jax.Array]:
    """The results of the body on all devices of the mesh together, computed on whole arrays."""
    run = Interpreter({}, _RULES)
    return [x.array for x in on_mesh(run, [whole(x) for x in operands], params)]
