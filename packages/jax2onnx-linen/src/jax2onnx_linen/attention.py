"""`nn.dot_product_attention` at inference as "nn.attention".

The layers around it need no composites: their projections are "nn.linear".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax.typing import DTypeLike
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.attention import attention_call

from jax2onnx_linen.layer import of_one_type

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:dot_product_attention", name="nn.attention")
def dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: jax.Array | None = None,
    mask: jax.Array | None = None,
    broadcast_dropout: bool = True,
    dropout_rng: jax.Array | None = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: DTypeLike | None = None,
    precision: jax.lax.PrecisionLike = None,
    module: nn.Module | None = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Callable[..., jax.Array] | None = None,
    qk_attn_weights_einsum: Callable[..., jax.Array] | None = None,
    attn_weights_value_einsum: Callable[..., jax.Array] | None = None,
) -> Call | None:
    if any((einsum_dot_general, qk_attn_weights_einsum, attn_weights_value_einsum)) or not (
        dropout_rate == 0.0 or deterministic is True
    ):
        return None
    sown = module is not None and module.is_mutable_collection("intermediates")
    if sown or not of_one_type(dtype, query, key, value) or query.shape[-2] != key.shape[-2]:
        return None
    mask = None if mask is None else mask.astype(np.bool_)
    in_float32 = query.dtype == np.float32 or force_fp32_for_softmax
    return attention_call(query, key, value, bias, mask, scale=None, is_causal=False, softmax_in_float32=in_float32)
