"""`nnx.Conv` as "nn.conv"; `nnx.ConvTranspose` needs no composite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.bindings import per_axis
from jax2onnx_lax.padding import canonical_padding

from jax2onnx_nnx._layer import parameter, promoted

if TYPE_CHECKING:
    from flax import nnx

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.nnx:Conv.__call__", name="nn.conv")
def conv(self: nnx.Conv, inputs: jax.Array, out_sharding: object = None) -> Call | None:
    """Kept because the padding of a causal convolution would be a Pad of its own."""
    rank = len(self.kernel_size)
    custom = self.conv_general_dilated is not jax.lax.conv_general_dilated or self.preferred_element_type is not None
    if custom or out_sharding is not None or self.mask is not None or set(per_axis(self.input_dilation, rank)) != {1}:
        return None
    dilations = per_axis(self.kernel_dilation, rank)
    arrays = promoted(self, inputs, parameter(self.kernel), parameter(self.bias))
    if arrays is None:
        return None
    padding = canonical_padding(self.padding, rank)
    if padding == "CAUSAL" and rank == 1:
        padding = ((dilations[0] * (self.kernel_size[0] - 1), 0),)
    strides = per_axis(self.strides, rank)
    return Call(*arrays, strides=strides, padding=padding, dilations=dilations, groups=self.feature_group_count)
