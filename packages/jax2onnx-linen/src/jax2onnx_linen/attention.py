"""`nn.dot_product_attention` at inference as "nn.attention".

The layers around it need no composites, but where a flag that is known at run time only says whether they drop weights:
their projections are "nn.linear".
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_core.jax_types import PyTree
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.nn.attention import attention_call

from jax2onnx_linen._layer import plain

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:dot_product_attention", name="nn.attention", keep_under_vmap="broadcast")
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
    """Kept because in half precision the casts of its softmax would stay around Attention, and before opset 23 the
    keys are transposed twice.
    """
    if any((einsum_dot_general, qk_attn_weights_einsum, attn_weights_value_einsum)) or not (
        dropout_rate == 0.0 or deterministic is True
    ):
        return None
    sown = module is not None and module.is_mutable_collection("intermediates")
    if sown or not of_one_float_type(query, key, value, dtype=dtype) or query.shape[-2] != key.shape[-2]:
        return None
    mask = None if mask is None else mask.astype(np.bool_)
    in_float32 = query.dtype == np.float32 or force_fp32_for_softmax
    return attention_call(query, key, value, bias, mask, scale=None, is_causal=False, softmax_in_float32=in_float32)


@composites.call("flax.linen:MultiHeadDotProductAttention.__call__.__wrapped__", name="linen.multi_head_attention")
def attention_by_flag(
    self: nn.MultiHeadDotProductAttention,
    inputs_q: jax.Array,
    inputs_k: jax.Array | None = None,
    inputs_v: jax.Array | None = None,
    *,
    inputs_kv: jax.Array | None = None,
    mask: jax.Array | None = None,
    deterministic: bool | jax.Array | None = None,
    dropout_rng: jax.Array | None = None,
    sow_weights: bool = False,
) -> Replacement | None:
    """Kept because the layer asks in Python for its flag, which fails where that is an input of the model."""
    import flax.linen as nn

    flag = self.deterministic if deterministic is None else deterministic
    if not isinstance(flag, jax.core.Tracer) or self.dropout_rate == 0.0 or self.decode or sow_weights:
        return None
    attend = self.attention_fn

    @functools.wraps(attend)
    def by_flag(*args: PyTree, **kwargs: PyTree) -> jax.Array:
        of = functools.partial(attend, *args)
        return jax.lax.cond(
            flag, lambda: of(**{**kwargs, "deterministic": True}), lambda: of(**{**kwargs, "deterministic": False})
        )

    layer = plain(self, nn.MultiHeadDotProductAttention, deterministic=False, attention_fn=by_flag)
    key = self.make_rng("dropout") if dropout_rng is None else dropout_rng
    given = {"inputs_kv": inputs_kv} if inputs_kv is not None else {}
    return Replacement(layer.apply(self.variables, inputs_q, inputs_k, inputs_v, mask=mask, dropout_rng=key, **given))


@composites.call("flax.linen:make_causal_mask", name="linen.causal_mask")
def make_causal_mask(x: jax.Array, extra_batch_dims: int = 0, dtype: DTypeLike = jnp.float32) -> Replacement:
    """Make the mask for one sequence, as a constant where its length is known, and broadcast it to the batch.

    Kept because the mask would be compared for each sequence of the batch.
    """
    positions = jnp.arange(x.shape[-1], dtype=np.int32)
    mask = jnp.broadcast_to(positions[:, None] >= positions, (*x.shape[:-1], 1, x.shape[-1], x.shape[-1]))
    return Replacement(jnp.expand_dims(mask, tuple(range(extra_batch_dims))).astype(dtype))
