"""`TimeDistributed` as its layer mapped over the steps, which Keras computes one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Composites, Replacement

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:TimeDistributed.call", name="keras.time_distributed")
def time_distributed(
    self: keras.layers.TimeDistributed,
    inputs: jax.Array,
    training: bool | None = None,
    mask: jax.Array | None = None,
) -> Replacement | None:
    """Kept because Keras calls the layer for each step, which fails where their number is symbolic."""
    if training or mask is not None:
        return None
    # Over the steps, not over the sequences: a layer may mix those of a batch.
    return Replacement(jax.vmap(self.layer.call, in_axes=1, out_axes=1)(inputs))
