"""`nn.PReLU` as "nn.prelu"; the other activations of Linen are those of `jax.nn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import is_float_array

from jax2onnx_linen._layer import variable

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:PReLU.__call__.__wrapped__", name="nn.prelu", keep_under_vmap=(0,))
def prelu(self: nn.PReLU, inputs: jax.Array) -> Call | None:
    """Kept because the primitives would be a comparison, a product and a selection."""
    slope = variable(self, "params", "negative_slope")
    return None if slope is None or not is_float_array(inputs) else Call(inputs, slope.astype(inputs.dtype))
