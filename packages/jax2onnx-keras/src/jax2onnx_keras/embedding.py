"""`Embedding` as "nn.embedding", `ReversibleEmbedding` in reverse as "nn.unembedding"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites

from jax2onnx_keras._layer import array, of_one_type

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:Embedding.call", name="nn.embedding")
def embedding(self: keras.layers.Embedding, inputs: jax.Array) -> Call | None:
    table = array(self.embeddings)
    # The only row of a table is broadcast, whatever the index is.
    if table is None or not of_one_type(table) or table.dtype != self.compute_dtype or table.shape[0] == 1:
        return None
    indices = inputs if inputs.dtype in (jnp.int32, jnp.int64) else inputs.astype(jnp.int32)
    return Call(table, indices, mode="fill")


@composites.call("keras.layers:ReversibleEmbedding.call", name="nn.unembedding")
def unembedding(self: keras.layers.ReversibleEmbedding, inputs: jax.Array, reverse: bool = False) -> Call | None:
    table = array(self.embeddings)
    if not reverse or not self.tie_weights or self.reverse_dtype is not None or self.logit_soft_cap is not None:
        return None
    return Call(inputs, table) if of_one_type(inputs, table) else None
