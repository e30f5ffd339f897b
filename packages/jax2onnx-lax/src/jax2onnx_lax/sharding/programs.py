"""`on_whole_arrays`: the body of a `shard_map`, as all devices of the mesh together compute it."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core.jax_types import Params

from jax2onnx_lax.sharding.bodies import BODIES, on_mesh
from jax2onnx_lax.sharding.collectives import COLLECTIVES
from jax2onnx_lax.sharding.composites import COMPOSITES
from jax2onnx_lax.sharding.control_flow import CONTROL_FLOW
from jax2onnx_lax.sharding.interpreter import Interpreter
from jax2onnx_lax.sharding.propagation import PROPAGATION
from jax2onnx_lax.sharding.sharded_arrays import whole

__all__ = ["on_whole_arrays"]

_RULES = {**PROPAGATION, **COLLECTIVES, **CONTROL_FLOW, **BODIES, **COMPOSITES}


def on_whole_arrays(operands: Sequence[jax.Array], params: Params) -> list[jax.Array]:
    """The results of a `shard_map` equation with these parameters, computed on whole arrays."""
    return [x.array for x in on_mesh(Interpreter({}, _RULES), [whole(x) for x in operands], params)]
