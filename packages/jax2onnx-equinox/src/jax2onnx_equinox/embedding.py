"""`eqx.nn.Embedding` as "nn.embedding", and `eqx.nn.RotaryPositionalEmbedding` of sequences of any length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_core.jaxprs import is_static

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["composites"]

composites = Composites()


@composites.call("equinox.nn:Embedding.__call__", name="nn.embedding", keep_under_vmap=(1,))
def embedding(self: eqx.nn.Embedding, x: jax.Array, *, key: jax.Array | None = None) -> Call | None:
    """Kept because a lookup of one row would be squeezed out of a matrix of one row."""
    is_index = isinstance(x, jax.Array | np.ndarray) and x.ndim == 0 and jnp.issubdtype(x.dtype, jnp.integer)
    return Call(self.weight, x, mode="clip") if is_index and self.num_embeddings > 0 else None


@composites.call("equinox.nn:RotaryPositionalEmbedding.__call__", name="nn.embedding")
def rotary_embedding(
    self: eqx.nn.RotaryPositionalEmbedding, x: jax.Array, *, key: jax.Array | None = None
) -> Replacement | None:
    """Compute sines and cosines from a symbolic length; the layer itself stores them for a length that is a number.

    Kept because the layer compares the length with that of its cache, which fails where it is symbolic.
    """
    length, size = x.shape
    if is_static(length) or size != self.embedding_size:
        return None
    frequencies = 1 / self.theta ** (jnp.arange(0.0, size, 2) / size)
    angles = jnp.outer(jnp.arange(length, dtype=frequencies.dtype), frequencies)
    cosines, sines = (jnp.tile(f(angles).astype(self.dtype), (1, 2)) for f in (jnp.cos, jnp.sin))
    return Replacement((x * cosines + self.rotate_half(x) * sines).astype(x.dtype))
