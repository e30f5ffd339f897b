"""`nn.Embed` as "nn.embedding", its `attend` as "nn.unembedding"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites

from jax2onnx_linen._layer import promoted

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:Embed.__call__.__wrapped__", name="nn.embedding", keep_under_vmap=(1,))
def embed(self: nn.Embed, inputs: jax.Array) -> Call | None:
    # The only row of a table is broadcast, whatever the index is.
    """Kept because an index of a few bits would be compared with the size of the table all the same."""
    if self.num_embeddings == 1 or not jnp.issubdtype(inputs.dtype, jnp.integer):
        return None
    (table,) = self.promote_dtype(self.embedding, dtype=self.dtype, inexact=False)
    return Call(table, inputs, mode="fill")


@composites.call("flax.linen:Embed.attend.__wrapped__", name="nn.unembedding", keep_under_vmap=(0,))
def attend(self: nn.Embed, query: jax.Array) -> Call | None:
    """Kept because Gemm reads the table as the embedding does, where MatMul would have a transposed copy of it."""
    arrays = promoted(self, query, self.embedding)
    return None if arrays is None else Call(*arrays)
