"""`hk.Linear` as "nn.linear"; `hk.nets.MLP` consists of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites

from jax2onnx_haiku._layer import parameters

if TYPE_CHECKING:
    import haiku as hk

__all__ = ["composites"]

composites = Composites()


@composites.call("haiku:Linear.__call__.__wrapped__", name="nn.linear", keep_under_vmap=(0,))
def linear(self: hk.Linear, inputs: jax.Array, *, precision: jax.lax.PrecisionLike = None) -> Call | None:
    if not inputs.ndim:
        return None
    shape = (inputs.shape[-1], self.output_size)
    weights = parameters(inputs, w=(shape, self.w_init), b=(shape[1:], self.b_init) if self.with_bias else None)
    return None if weights is None else Call(inputs, *weights, contracted=1)
