"""`nnx.dot_product_attention` where it does not go through `jax.nn`'s: a layer with a dropout rate, at inference.

`nnx.MultiHeadAttention` itself needs no composite: its projections are `nnx.linear`, its core is attention.
"""

from __future__ import annotations

__all__ = ["composites", "rules"]

from typing import Any

import numpy as np
from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn.attention import attention_call, lower_attention

composites = Composites()
rules = Rules()
rules.lower("nnx.dot_product_attention")(lower_attention)


@composites.call("flax.nnx:dot_product_attention", name="nnx.dot_product_attention")
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    promote_dtype: Any = None,
    is_causal: bool = False,
) -> Call | None:
    if dropout_rate == 0.0 or not deterministic or module is not None or promote_dtype is not None:
        return None
    if dtype is not None and any(x.dtype != dtype for x in (query, key, value)):
        return None
    mask = None if mask is None else mask.astype(np.bool_)
    return attention_call(
        query, key, value, bias, mask, scale=None, is_causal=is_causal, softmax_in_float32=query.dtype == np.float32
    )
