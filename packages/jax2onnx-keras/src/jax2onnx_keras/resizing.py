"""`UpSampling2D` to the nearest pixel as `jax.image.resize`, which is one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Composites, Replacement

from jax2onnx_keras._layer import as_channels_last, from_channels_last

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:UpSampling2D.call", name="jax.image.resize")
def up_sampling(self: keras.layers.UpSampling2D, inputs: jax.Array) -> Replacement | None:
    """Kept because rows and columns would be repeated by seven operators, Resize is one."""
    if self.interpolation != "nearest":
        return None
    x = as_channels_last(inputs, self.data_format)
    batch, height, width, channels = x.shape
    y = jax.image.resize(x, (batch, height * self.size[0], width * self.size[1], channels), "nearest")
    return Replacement(from_channels_last(y, self.data_format))
