"""`eqx.nn.Conv` as "nn.conv", `eqx.nn.ConvTranspose` as "nn.conv_transpose"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np
from jax import lax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.padding import Padding, Pairs

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["composites"]

composites = Composites()


@composites.call("equinox.nn:Conv.__call__", name="nn.conv", keep_under_vmap=(0,))
def conv(self: eqx.nn.Conv, x: jax.Array, *, key: jax.Array | None = None) -> Call | None:
    """Kept because under more than one vmap, or none, the bias would be an Add of its own."""
    padding: Padding = self.padding
    if padding == "SAME_LOWER":
        window = [(size - 1) * dilation + 1 for size, dilation in zip(self.kernel_size, self.dilation, strict=True)]
        pairs = lax.padtype_to_pads(x.shape[1:], window, self.stride, padding)
        padding = tuple((int(low), int(high)) for low, high in pairs)
    return _call(self, x, padding)


@composites.call("equinox.nn:ConvTranspose.__call__", name="nn.conv_transpose", keep_under_vmap=(0,))
def conv_transpose(self: eqx.nn.ConvTranspose, x: jax.Array, *, key: jax.Array | None = None) -> Call | None:
    """Kept because under more than one vmap, and of groups, the bias would be an Add of its own."""
    return _call(self, x, _spread_padding(self), transpose_kernel=False)


def _call(layer: eqx.nn.Conv | eqx.nn.ConvTranspose, x: jax.Array, padding: Padding, **options: bool) -> Call | None:
    if layer.padding_mode != "ZEROS" or x.ndim != layer.num_spatial_dims + 1:
        return None
    bias = layer.bias if layer.use_bias else None
    if not of_one_float_type(x, layer.weight, bias):
        return None
    return Call(
        x,
        layer.weight,
        None if bias is None else bias.reshape(-1),
        padding=padding,
        strides=layer.stride,
        dilations=layer.dilation,
        groups=layer.groups,
        channels_first=True,
        **options,
    )


def _spread_padding(layer: eqx.nn.ConvTranspose) -> Pairs:
    """The padding (low, high) of each axis of the input after dilating it by the strides."""
    window, strides, extra = map(np.asarray, (layer.kernel_size, layer.stride, layer.output_padding))
    full = np.asarray(layer.dilation) * (window - 1)
    if layer.padding == "VALID":
        low = high = np.zeros_like(full)
    elif isinstance(layer.padding, str):
        missing = full - strides + extra + 1
        total, extra = np.maximum(missing, 0), np.maximum(-missing, 0)
        low = (total + (layer.padding == "SAME_LOWER")) // 2
        high = total - low
    else:
        low, high = np.asarray(layer.padding).T
    return tuple((int(a), int(b)) for a, b in zip(full - low, full - high + extra, strict=True))
