"""The core of `hk.MultiHeadAttention` as "nn.attention"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.nn.attention import attention_call

if TYPE_CHECKING:
    import haiku as hk

__all__ = ["attend", "composites"]

composites = Composites()


@composites.call("haiku:MultiHeadAttention.__call__.__wrapped__", name="nn.attention")
def multi_head_attention(
    self: hk.MultiHeadAttention, query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None
) -> Replacement | None:
    """The computation of the layer with its core as a function of its own, which a composite claims.

    Kept because before opset 23 the keys would be transposed twice.
    """
    import haiku as hk

    unusual = type(self) is not hk.MultiHeadAttention or hk.running_init() or not of_one_float_type(query, key, value)
    if unusual or (mask is not None and mask.ndim != query.ndim + 1):
        return None

    def project(x: jax.Array, size: int, name: str) -> jax.Array:
        linear = hk.Linear(
            self.num_heads * size, w_init=self.w_init, with_bias=self.with_bias, b_init=self.b_init, name=name
        )
        return linear(x).reshape(*x.shape[:-1], self.num_heads, size)

    heads = (
        project(query, self.key_size, "query"),
        project(key, self.key_size, "key"),
        project(value, self.value_size, "value"),
    )
    attended = attend(*heads, mask).reshape(*query.shape[:-1], self.num_heads * self.value_size)
    linear = hk.Linear(self.model_size, w_init=self.w_init, with_bias=self.with_bias, b_init=self.b_init)
    return Replacement(linear(attended))


def attend(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None) -> jax.Array:
    """`softmax(query · keyᵀ / sqrt(H)) · value` as Haiku computes it.

    Args:
      query: [..., T, N, H].
      key: [..., S, N, H].
      value: [..., S, N, V].
      mask: broadcastable to [..., N, T, S], not zero where a query sees a key, or None.

    Returns:
      [..., T, N, V].
    """
    logits = jnp.einsum("...thd,...Thd->...htT", query, key) / np.sqrt(query.shape[-1]).astype(key.dtype)
    if mask is not None:
        logits = jnp.where(mask, logits, -1e30)
    return jnp.einsum("...htT,...Thd->...thd", jax.nn.softmax(logits), value)


@composites.call("jax2onnx_haiku.attention:attend", name="nn.attention")
def attend_call(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None) -> Call | None:
    # In half precision a masked logit is -inf, and the softmax is not computed in float32.
    """Kept as the part of the layer that is one operation."""
    if query.dtype not in (np.float32, np.float64):
        return None
    mask = mask if mask is None else mask.astype(np.bool_)
    return attention_call(query, key, value, None, mask, scale=None, is_causal=False, softmax_in_float32=False)
