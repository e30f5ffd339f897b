"""`eqx.nn.PReLU` as "nn.prelu"; other activations are those of `jax.nn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import of_one_float_type

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["composites"]

composites = Composites()


@composites.call("equinox.nn:PReLU.__call__", name="nn.prelu", keep_under_vmap=(0,))
def prelu(self: eqx.nn.PReLU, x: jax.Array) -> Call | None:
    """Kept because the primitives would be a comparison, a product and a selection."""
    if jnp.broadcast_shapes(x.shape, self.negative_slope.shape) != x.shape:
        return None
    slope = self.negative_slope.astype(x.dtype) if self.negative_slope.weak_type else self.negative_slope
    return Call(x, slope) if of_one_float_type(x, slope) else None
