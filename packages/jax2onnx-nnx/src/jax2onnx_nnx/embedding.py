"""`nnx.Embed` as "nn.embedding", its `attend` as "nn.unembedding"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites

from jax2onnx_nnx._layer import parameter, promoted

if TYPE_CHECKING:
    from flax import nnx

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.nnx:Embed.__call__", name="nn.embedding")
def embed(self: nnx.Embed, inputs: jax.Array, out_sharding: object = None) -> Call | None:
    # The only row of a table is broadcast, whatever the index is.
    """Kept because an index of a few bits would be compared with the size of the table all the same."""
    if out_sharding is not None or self.num_embeddings == 1 or not jnp.issubdtype(inputs.dtype, jnp.integer):
        return None
    (table,) = self.promote_dtype((parameter(self.embedding),), dtype=self.dtype, inexact=False)
    return Call(table, inputs, mode="fill")


@composites.call("flax.nnx:Embed.attend", name="nn.unembedding")
def attend(self: nnx.Embed, query: jax.Array, out_sharding: object = None) -> Call | None:
    """Kept because Gemm reads the table as the embedding does, where MatMul would have a transposed copy of it."""
    arrays = promoted(self, query, parameter(self.embedding))
    return None if arrays is None or out_sharding is not None else Call(*arrays)
