"""`ReversibleEmbedding` in reverse as "nn.unembedding"; `Embedding` needs no composite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites

from jax2onnx_keras._layer import array, of_one_type

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:ReversibleEmbedding.call", name="nn.unembedding")
def unembedding(self: keras.layers.ReversibleEmbedding, inputs: jax.Array, reverse: bool = False) -> Call | None:
    """Kept because Gemm reads the table as the embedding does, where MatMul would have a transposed copy of it."""
    table = array(self.embeddings)
    if not reverse or not self.tie_weights or self.reverse_dtype is not None or self.logit_soft_cap is not None:
        return None
    return Call(inputs, table) if of_one_type(inputs, table) else None
