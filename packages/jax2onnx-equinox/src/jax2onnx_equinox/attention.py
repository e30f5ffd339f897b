"""`eqx.nn.MultiheadAttention` by its projections and "nn.attention"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_lax.nn.attention import attention_call

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["attend", "composites"]

composites = Composites()

Heads = tuple[jax.Array, jax.Array, jax.Array]


@composites.call("equinox.nn:MultiheadAttention.__call__", name="nn.attention")
def multihead_attention(
    self: eqx.nn.MultiheadAttention, query: jax.Array, key_: jax.Array, value: jax.Array,
    mask: jax.Array | None = None, *, key: jax.Array | None = None, inference: bool | None = None,
    deterministic: bool | None = None, process_heads: Callable[[jax.Array, jax.Array, jax.Array], Heads] | None = None,
) -> Replacement | None:  # fmt: skip
    """Kept because masks of heads and rows that see no key would be seven operators more than Attention."""
    inference = self.dropout.inference if inference is None else inference
    drops = not (isinstance(self.dropout.p, int | float) and self.dropout.p == 0)
    if deterministic is not None or (drops and inference is not True):
        return None
    if key_.shape[0] != value.shape[0] or (mask is not None and not _is_mask(mask, self.num_heads, query, key_)):
        return None
    projections = ((self.query_proj, query), (self.key_proj, key_), (self.value_proj, value))
    q, k, v = (jax.vmap(proj)(x).reshape(x.shape[0], self.num_heads, -1) for proj, x in projections)
    if process_heads is not None:
        shapes = q.shape, k.shape, v.shape
        q, k, v = process_heads(q, k, v)
        if (q.shape, k.shape, v.shape) != shapes:
            raise ValueError("process_heads must not change the shape of the heads.")
    attended = attend(q, k, v, mask)
    return Replacement(jax.vmap(self.output_proj)(attended.reshape(query.shape[0], -1)))


def _is_mask(mask: jax.Array, heads: int, query: jax.Array, key: jax.Array) -> bool:
    shape = (query.shape[0], key.shape[0])
    return mask.dtype == np.bool_ and mask.shape in (shape, (heads, *shape))


def attend(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None) -> jax.Array:
    """The attention of `eqx.nn.MultiheadAttention` for all heads.

    Args:
      query: [T, N, H].
      key: [S, N, H].
      value: [S, N, V].
      mask: booleans [T, S] or [N, T, S], True where a query attends to a key, or None.

    Returns:
      [T, N, V].
    """
    logits = jnp.einsum("tnh,snh->nts", query / math.sqrt(query.shape[-1]), key)
    if mask is not None:
        logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    weights = jax.nn.softmax(logits.astype(jnp.promote_types(logits.dtype, np.float32))).astype(logits.dtype)
    return jnp.einsum("nts,snv->tnv", weights, value)


@composites.call("jax2onnx_equinox.attention:attend", name="nn.attention", keep_under_vmap="broadcast")
def attend_call(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None) -> Call | None:
    """Kept as the part of the layer that is one operation."""
    in_float32 = query.dtype != np.float64
    return attention_call(query, key, value, None, mask, scale=None, is_causal=False, softmax_in_float32=in_float32)
