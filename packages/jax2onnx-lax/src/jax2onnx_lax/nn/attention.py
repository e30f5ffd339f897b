"""`jax.nn.dot_product_attention` as `Attention`, or as `MatMul`, `Softmax`, `MatMul`.

Letters: B batch, T queries, S keys, N query heads, K key heads, H features of a head.

JAX replaces masked logits by a large finite number, so a row that is masked everywhere attends to
all keys alike. `Attention` with a boolean mask does not do that; with a float mask of that same number it
does, because adding it to a logit of ordinary size leaves just the number.
"""

from __future__ import annotations

__all__ = ["attention_call", "composites", "lower_attention", "rules"]

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Rules

from jax2onnx_lax.nn.activations import is_float

composites = Composites()
rules = Rules()

_MASKED = float(-0.7 * np.finfo(np.float32).max)


@composites.call("jax.nn:dot_product_attention", name="jax.nn.dot_product_attention")
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Any = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Call | None:
    unusual = (query_seq_lengths, key_value_seq_lengths, local_window_size)
    if any(x is not None for x in unusual) or return_residual or implementation == "cudnn":
        return None
    return attention_call(query, key, value, bias, mask, scale=scale, is_causal=is_causal)


def attention_call(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    mask: Any,
    *,
    scale: Any,
    is_causal: bool,
    softmax_in_float32: bool = True,
) -> Call | None:
    """The operands of `lower_attention`: query, key, value of shape [B?, ·, heads, H], a boolean mask
    with the causal one merged into it, and a bias, both broadcastable to [B, N, T, S] and of rank 4."""
    if not is_float(query, key, value) or query.ndim not in (3, 4) or not isinstance(scale, None | int | float):
        return None
    if not query.dtype == key.dtype == value.dtype or (bias is not None and not is_float(bias)):
        return None
    if mask is not None and mask.dtype != np.bool_:
        return None
    if is_causal and (mask is not None or bias is not None):
        causal = jnp.tril(jnp.ones((query.shape[-3], key.shape[-3]), bool))
        mask = causal if mask is None else mask & causal
        is_causal = False
    return Call(
        query,
        key,
        value,
        _rank_4(bias),
        _rank_4(mask),
        scale=float(query.shape[-1] ** -0.5 if scale is None else scale),
        is_causal=bool(is_causal),
        softmax_in_float32=softmax_in_float32,
    )


def _rank_4(x: Any) -> Any:
    return x if x is None or x.ndim == 4 else jnp.expand_dims(x, tuple(range(4 - x.ndim)))


@rules.lower("jax.nn.dot_product_attention")
def lower_attention(
    ctx: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    mask: Any,
    *,
    scale: float,
    is_causal: bool,
    softmax_in_float32: bool = True,
) -> Any:
    """Attention as crisp as opset, target and element type allow. Returns [B?, T, N, H]."""
    dims, dtype = ctx.dims(query), ctx.dtype(query)
    if _can_use_attention(ctx, dtype, bias, mask):
        out = _attention(ctx, query, key, value, _added(ctx, query, key, bias, mask), scale, is_causal)
    else:
        if is_causal:
            mask = ctx.jax(_causal_mask, query, key)
        out = _matmuls(ctx, query, key, value, bias, mask, scale, softmax_in_float32)
    return ctx.reshape(out, (*dims[:-1], ctx.dims(value)[-1]))


def _causal_mask(query: jax.Array, key: jax.Array) -> jax.Array:
    return jnp.tril(jnp.ones((1, 1, query.shape[-3], key.shape[-3]), bool))


def _can_use_attention(ctx: Any, dtype: np.dtype[Any], bias: Any, mask: Any) -> bool:
    # In double precision JAX rounds the logits to float32, in half precision the large number does not fit.
    if ctx.opset < 23 or not ctx.supports("Attention", dtype):
        return False
    if dtype == np.float32:
        return bias is None or ctx.dtype(bias) == dtype
    return dtype == np.float16 and bias is None and mask is None


def _added(ctx: Any, query: Any, key: Any, bias: Any, mask: Any) -> Any:
    """Bias and mask as one float tensor [·, ·, T, S] to be added to the logits: `Attention` wants the last two
    dimensions in full."""
    added = _as_bias(ctx, bias, mask, np.dtype(np.float32))
    if added is None:
        return None
    return ctx.broadcast(added, (*ctx.dims(added)[:2], ctx.dims(query)[-3], ctx.dims(key)[-3]))


def _as_bias(ctx: Any, bias: Any, mask: Any, dtype: np.dtype[Any]) -> Any:
    if mask is None:
        return bias
    unmasked = ctx.constant(np.zeros((), dtype)) if bias is None else bias
    return ctx.op.Where(mask, unmasked, ctx.constant(np.array(_MASKED, dtype)))


def _attention(ctx: Any, query: Any, key: Any, value: Any, added: Any, scale: float, is_causal: bool) -> Any:
    """The 3-D form, [B, ·, heads · H], needs no transposes."""
    attributes: dict[str, Any] = {"is_causal": 1} if is_causal else {}
    if not np.isclose(scale, ctx.dims(query)[-1] ** -0.5, rtol=1e-7, atol=0):
        attributes["scale"] = scale
    return ctx.op(
        "Attention",
        *(_merge_heads(ctx, x) for x in (query, key, value)),
        *([] if added is None else [added]),
        q_num_heads=ctx.dims(query)[-2],
        kv_num_heads=ctx.dims(key)[-2],
        dims=_merged_dims(ctx.dims(query), ctx.dims(value)[-1]),
        **attributes,
    )


def _merge_heads(ctx: Any, x: Any) -> Any:
    return ctx.reshape(x, _merged_dims(ctx.dims(x), ctx.dims(x)[-1]))


def _merged_dims(dims: tuple[Any, ...], features: Any) -> tuple[Any, ...]:
    *batch, length, heads, _ = dims
    return (*(batch or [1]), length, heads * features)


def _matmuls(
    ctx: Any, query: Any, key: Any, value: Any, bias: Any, mask: Any, scale: float, softmax_in_float32: bool
) -> Any:
    """[B, T, N, H], by `MatMul`, `Softmax`, `MatMul`; the G = N / K queries of a group go through as one."""
    dtype = ctx.dtype(query)
    logits_dtype = jnp.promote_types(dtype, np.float32)
    query, key, value = (_rank_4_value(ctx, x) for x in (query, key, value))
    (batch, length, heads, features), (_, keys, groups, _) = ctx.dims(query), ctx.dims(key)
    grouped = (batch, groups, heads // groups * length)
    q = ctx.reshape(ctx.transpose(ctx.cast(query, logits_dtype), (0, 2, 1, 3)), (*grouped, features))
    k = ctx.transpose(ctx.cast(key, logits_dtype), (0, 2, 3, 1))
    products = ctx.op.MatMul(q, k, dims=(*grouped, keys))
    logits = ctx.op.Mul(products, ctx.constant(np.array(scale, logits_dtype)))
    logits = ctx.reshape(logits, (batch, heads, length, keys))
    if (added := _as_bias(ctx, bias, mask, logits_dtype)) is not None:
        logits = ctx.op.Add(logits, ctx.cast(added, logits_dtype))
    logits = ctx.cast(logits, np.dtype(np.float32)) if softmax_in_float32 else logits
    softmax = ctx.op.Softmax(logits, axis=-1, dims=(batch, heads, length, keys))
    probabilities = ctx.reshape(ctx.cast(softmax, dtype), (*grouped, keys))
    features = ctx.dims(value)[-1]
    out = ctx.op.MatMul(probabilities, ctx.transpose(value, (0, 2, 1, 3)), dims=(*grouped, features))
    return ctx.transpose(ctx.reshape(out, (batch, heads, length, features)), (0, 2, 1, 3))


def _rank_4_value(ctx: Any, x: Any) -> Any:
    return x if len(ctx.dims(x)) == 4 else ctx.unsqueeze(x, [0])
