"""`nn.Conv` as "nn.conv"; `nn.ConvTranspose` needs no composite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.bindings import per_axis
from jax2onnx_lax.padding import canonical_padding

from jax2onnx_linen._layer import parameters, promoted

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen.linear:_Conv.__call__.__wrapped__", name="nn.conv", keep_under_vmap=(0,))
def conv(self: nn.Conv, inputs: jax.Array) -> Call | None:
    """Kept because the padding of a causal convolution would be a Pad of its own, and under vmap the bias an Add
    behind a reshape.
    """
    rank = 1 if isinstance(self.kernel_size, int) else len(self.kernel_size)
    custom = self.conv_general_dilated or self.conv_general_dilated_cls or not self.shared_weights
    if custom or self.mask is not None or set(per_axis(self.input_dilation, rank)) != {1}:
        return None
    dilations = per_axis(self.kernel_dilation, rank)
    padding = canonical_padding(self.padding, rank)
    if padding == "CAUSAL" and rank == 1:
        (size,) = (self.kernel_size,) if isinstance(self.kernel_size, int) else self.kernel_size
        padding = ((dilations[0] * (size - 1), 0),)
    found = parameters(self, kernel=True, bias=self.use_bias)
    arrays = promoted(self, inputs, *found) if found else None
    if arrays is None:
        return None
    strides = per_axis(self.strides, rank)
    return Call(*arrays, strides=strides, padding=padding, dilations=dilations, groups=self.feature_group_count)
