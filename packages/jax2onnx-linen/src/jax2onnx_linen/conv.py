"""`nn.Conv` as "nn.conv", `nn.ConvTranspose` as "nn.conv_transpose"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.bindings import per_axis
from jax2onnx_lax.padding import canonical_padding

from jax2onnx_linen._layer import Parameters, parameters, promoted

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen.linear:_Conv.__call__.__wrapped__", name="nn.conv", keep_under_vmap=(0,))
def conv(self: nn.Conv, inputs: jax.Array) -> Call | None:
    rank = _rank(self)
    custom = self.conv_general_dilated or self.conv_general_dilated_cls or not self.shared_weights
    if custom or set(per_axis(self.input_dilation, rank)) != {1}:
        return None
    dilations = per_axis(self.kernel_dilation, rank)
    padding = canonical_padding(self.padding, rank)
    if padding == "CAUSAL" and rank == 1:
        (size,) = (self.kernel_size,) if isinstance(self.kernel_size, int) else self.kernel_size
        padding = ((dilations[0] * (size - 1), 0),)
    arrays = _arrays(self, inputs)
    if arrays is None:
        return None
    strides = per_axis(self.strides, rank)
    return Call(*arrays, strides=strides, padding=padding, dilations=dilations, groups=self.feature_group_count)


@composites.call("flax.linen:ConvTranspose.__call__.__wrapped__", name="nn.conv_transpose", keep_under_vmap=(0,))
def conv_transpose(self: nn.ConvTranspose, inputs: jax.Array) -> Call | None:
    rank, arrays = _rank(self), _arrays(self, inputs)
    if arrays is None or self.preferred_element_type is not None:
        return None
    return Call(
        *arrays,
        strides=per_axis(self.strides, rank),
        padding=canonical_padding(self.padding, rank),
        dilations=per_axis(self.kernel_dilation, rank),
        transpose_kernel=self.transpose_kernel,
    )


def _rank(layer: nn.Conv | nn.ConvTranspose) -> int:
    """The number of spatial axes."""
    return 1 if isinstance(layer.kernel_size, int) else len(layer.kernel_size)


def _arrays(layer: nn.Conv | nn.ConvTranspose, inputs: jax.Array) -> Parameters | None:
    """The images, the kernel and the bias, of one dtype; None where the kernel is masked."""
    found = parameters(layer, kernel=True, bias=layer.use_bias)
    return promoted(layer, inputs, *found) if found and layer.mask is None else None
