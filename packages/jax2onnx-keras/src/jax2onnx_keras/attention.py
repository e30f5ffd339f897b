"""`MultiHeadAttention` with a dropout rate, at inference, as "nn.attention".

Without the rate its core is `jax.nn.dot_product_attention`; its projections are layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Composites, Replacement, bind_composite
from jax2onnx_lax.nn.attention import attention_call

from jax2onnx_keras._compat import zeroes_hidden_rows
from jax2onnx_keras._layer import of_one_type

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:MultiHeadAttention._compute_attention", name="nn.attention")
def compute_attention(
    self: keras.layers.MultiHeadAttention,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    attention_mask: jax.Array | None = None,
    training: bool | None = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Replacement | None:
    """Kept because before opset 23, and in float64, the keys would be transposed twice."""
    if not self.dropout or training or return_attention_scores:
        return None
    if {query.ndim, key.ndim, value.ndim} != {4} or not of_one_type(query, key, value):
        return None
    mask = None if attention_mask is None else _mask(attention_mask)
    if mask is not None and use_causal_mask:
        mask, use_causal_mask = mask & _causal(query, key), False
    scale = float(query.shape[-1]) ** -0.5
    call = attention_call(
        query, key, value, None, mask, scale=scale, is_causal=use_causal_mask, softmax_in_float32=False
    )
    if call is None:
        return None

    def original() -> jax.Array:
        logits = jnp.einsum("btnh,bsnh->bnts", query * scale, key)
        seen = _causal(query, key) if use_causal_mask else mask
        logits = logits if seen is None else jnp.where(seen, logits, -1e9)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(logits), value)

    result = bind_composite("nn.attention", call, original)
    if mask is not None and zeroes_hidden_rows():
        result = result * _sees_a_key(mask).astype(result.dtype)
    return Replacement((result, None))


def _mask(given: jax.Array) -> jax.Array:
    """The mask as booleans [B, N or 1, T, S], as `Softmax` of Keras reads numbers."""
    mask = given if given.dtype == bool else given > 0.5
    return jnp.expand_dims(mask, [-3] if mask.ndim == 3 else list(range(4 - mask.ndim)))


def _causal(query: jax.Array, key: jax.Array) -> jax.Array:
    return jnp.tril(jnp.ones((query.shape[1], key.shape[1]), bool))


def _sees_a_key(mask: jax.Array) -> jax.Array:
    """Whether a query sees a key, [B, T, N or 1, 1]: "nn.attention" averages all values where it sees none."""
    return jnp.swapaxes(mask.any(-1), 1, 2)[..., None]
