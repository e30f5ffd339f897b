"""`nnx.dot_product_attention` where it does not go through `jax.nn`'s: a layer with a dropout rate, at inference.

`nnx.MultiHeadAttention` itself needs no composite: its projections are "nn.linear", its core is "nn.attention".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np
from jax.typing import DTypeLike
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.attention import attention_call

if TYPE_CHECKING:
    from flax import nnx
    from flax.typing import PromoteDtypeFn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.nnx:dot_product_attention", name="nn.attention")
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
    module: nnx.Module | None = None,
    promote_dtype: PromoteDtypeFn | None = None,
    is_causal: bool = False,
) -> Call | None:
    """Kept because in half precision the casts of its softmax would stay around Attention, and before opset 23 the
    keys are transposed twice.
    """
    if dropout_rate == 0.0 or not deterministic or module is not None or promote_dtype is not None:
        return None
    if dtype is not None and any(x.dtype != dtype for x in (query, key, value)):
        return None
    mask = None if mask is None else mask.astype(np.bool_)
    in_float32 = query.dtype == np.float32
    return attention_call(query, key, value, bias, mask, scale=None, is_causal=is_causal, softmax_in_float32=in_float32)
