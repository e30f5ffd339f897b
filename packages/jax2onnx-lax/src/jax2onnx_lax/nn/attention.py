"""The layer operation "nn.attention", which `jax.nn.dot_product_attention` is, as Attention, or as MatMul, Softmax and MatMul.

Letters: B batch, T queries, S keys, N query heads, K key heads, H features of a head.

JAX replaces masked logits by a large finite number, so a row that is masked everywhere attends to
all keys alike. `Attention` with a boolean mask does not do that; with a float mask of that same number it
does, because adding it to a logit of ordinary size leaves just the number.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Context, Replacement, Rules, Value
from jax2onnx_core.jaxprs import Dims
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.dtypes import is_float_array

__all__ = ["attention_call", "composites", "rules"]

composites = Composites()
rules = Rules()

_MASKED = float(-0.7 * np.finfo(np.float32).max)


@composites.call("jax.nn:dot_product_attention", name="nn.attention", keep_under_vmap="broadcast")
def dot_product_attention(
    query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None = None, mask: jax.Array | None = None, *,
    scale: float | None = None, is_causal: bool = False, query_seq_lengths: jax.Array | None = None,
    key_value_seq_lengths: jax.Array | None = None, local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None, return_residual: bool = False,
) -> Call | Replacement | None:  # fmt: skip
    if query_seq_lengths is not None or return_residual or implementation == "cudnn":
        return None
    if local_window_size is not None or key_value_seq_lengths is not None:
        lengths = query.shape[-3], key.shape[-3]
        mask = _limited(mask, *lengths, local_window_size, key_value_seq_lengths)
        return Replacement(
            jax.nn.dot_product_attention(query, key, value, bias, mask, scale=scale, is_causal=is_causal)
        )
    return attention_call(query, key, value, bias, mask, scale=scale, is_causal=is_causal)


def _limited(
    mask: jax.Array | None, queries: int, keys: int, window: int | tuple[int, int] | None, seen: jax.Array | None
) -> jax.Array | None:
    """The mask of `jax.nn.dot_product_attention` with its other two limits.

    Args:
      mask: booleans that broadcast to [B, N, T, S], or None.
      queries: T.
      keys: S.
      window: the number of keys before and after each query's own that it attends to, or None.
      seen: the number of keys of each sequence, [B], or None.
    """
    places = jnp.arange(keys)
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        distance = jnp.arange(queries)[:, None] - places
        near = ((distance <= left) & (distance >= -right))[None, None]
        mask = near if mask is None else mask & near
    if seen is not None:
        present = places < jnp.asarray(seen)[:, None, None, None]
        mask = present if mask is None else mask & present
    return mask


def attention_call(
    query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None, mask: jax.Array | None, *,
    scale: float | None, is_causal: bool, softmax_in_float32: bool = True,
) -> Call | None:  # fmt: skip
    """The call of "nn.attention" for the arguments of a framework's attention function.

    A causal mask is merged into a mask or bias, and both get rank 4.

    Args:
      query: [B, T, N, H] or [T, N, H], floats.
      key: [B, S, K, H] or [S, K, H], of the same dtype.
      value: as `key`.
      bias: floats that broadcast to [B, N, T, S], or None.
      mask: booleans that broadcast to [B, N, T, S], True where a query attends to a key, or None.
      scale: the factor of the logits, or None for `1 / sqrt(H)`.
      is_causal: whether query t attends to the keys up to t only.
      softmax_in_float32: whether the logits are rounded to float32 before the softmax.

    Returns:
      The call, or None where an argument has another dtype or rank, or `scale` is no number.
    """
    if not is_float_array(query, key, value) or query.ndim not in (3, 4) or not isinstance(scale, None | int | float):
        return None
    if not query.dtype == key.dtype == value.dtype or (bias is not None and not is_float_array(bias)):
        return None
    if mask is not None and mask.dtype != np.bool_:
        return None
    if is_causal and (mask is not None or bias is not None):
        causal = _causal_mask(query, key)
        mask = causal if mask is None else mask & causal
        is_causal = False
    scale = float(query.shape[-1] ** -0.5 if scale is None else scale)
    return Call(query, key, value, _with_rank_4(bias), _with_rank_4(mask), scale=scale, is_causal=bool(is_causal),
                softmax_in_float32=softmax_in_float32)  # fmt: skip


def _with_rank_4(x: jax.Array | None) -> jax.Array | None:
    return x if x is None or x.ndim == 4 else jnp.expand_dims(x, tuple(range(4 - x.ndim)))


@rules.lower("nn.attention")
def attention(
    ctx: Context, query: Value, key: Value, value: Value, bias: Value | None, mask: Value | None, *, scale: float,
    is_causal: bool, softmax_in_float32: bool,
) -> Value:  # fmt: skip
    """`softmax(query · keyᵀ · scale + bias) · value` for each head, with masked logits replaced by a large negative number.

    Grouped heads: each of the K key heads serves the N / K query heads that follow one another.

    Bind to it by `jax2onnx_lax.nn.attention.attention_call`, which brings arguments into this form. Under vmap:
    `keep_under_vmap="broadcast"`; the further batch axes are the first ones of every operand, bias and mask included.

    Args:
      ctx: the context of the rule.
      query: [B, T, N, H] or [T, N, H].
      key: [B, S, K, H] or [S, K, H].
      value: [B, S, K, V] or [S, K, V].
      bias: floats [B or 1, N or 1, T or 1, S or 1], or None.
      mask: booleans of such a shape, True where a query attends to a key, or None.
      scale: the factor of the logits.
      is_causal: whether query t attends to the keys up to t only; bias and mask are None then.
      softmax_in_float32: whether the logits are rounded to float32 before the softmax.

    Returns:
      [B, T, N, V] or [T, N, V].
    """
    query, key, value, bias, mask = _with_one_batch_axis(ctx, query, key, value, bias, mask)
    # Runtimes refuse other factors, and the standard takes 0 for none.
    if scale > 0 and _has_operator(ctx, ctx.dtype(query), bias, mask):
        out = _attention(ctx, query, key, value, _added(ctx, query, key, bias, mask), scale, is_causal)
    else:
        if is_causal:
            mask = ctx.jax(_causal_mask, query, key)
        out = _matmuls(ctx, query, key, value, bias, mask, scale, softmax_in_float32)
    return ctx.reshape(out, ctx.avals_out[0].shape)


def _with_one_batch_axis(
    ctx: Context, query: Value, key: Value, value: Value, bias: Value | None, mask: Value | None
) -> tuple[Value, Value, Value, Value | None, Value | None]:
    """The operands with at most one batch axis in place of those that `vmap` has added."""
    batch = ctx.avals_out[0].shape[:-3]
    heads = (query, key, value)
    if len(batch) > 1 or any(ctx.known_dims(x)[:-3] != batch for x in heads):
        query, key, value = (_merged(ctx, ctx.broadcast(x, (*batch, *ctx.known_dims(x)[-3:])), 3) for x in heads)
    return query, key, value, _merged_mask(ctx, bias, batch), _merged_mask(ctx, mask, batch)


def _merged_mask(ctx: Context, x: Value | None, batch: Dims) -> Value | None:
    """A mask or bias as [B or 1, N, T, S], where `batch` are the batch axes of the queries."""
    if x is None or len(ctx.known_dims(x)) == 4:
        return x
    dims = ctx.known_dims(x)
    # Of queries without a batch axis of their own, the mask has one all the same.
    lead, rest = dims[: len(batch)], dims[-3:]
    x = ctx.reshape(x, (*lead, *rest))
    return _merged(ctx, x if set(lead) == {1} else ctx.broadcast(x, (*batch, *rest)), 3)


def _merged(ctx: Context, x: Value, count: int) -> Value:
    """`x` with all axes before the last `count` made one."""
    dims = ctx.known_dims(x)
    return ctx.reshape(x, (math.prod(dims[:-count]), *dims[-count:]))


def _causal_mask(query: jax.Array, key: jax.Array) -> jax.Array:
    """[T, S]: whether query t sees key s. In int32, which every runtime compares; `jnp.tril` takes int64 for symbolic sizes."""
    queries, keys = (jnp.arange(x.shape[-3], dtype=jnp.int32) for x in (query, key))
    return queries[:, None] >= keys


def _has_operator(ctx: Context, dtype: DtypeLike, bias: Value | None, mask: Value | None) -> bool:
    # In double precision JAX rounds the logits to float32, in half precision the large number does not fit.
    if ctx.opset < 23 or not ctx.supports("Attention", dtype):
        return False
    if dtype == np.float32:
        return bias is None or ctx.dtype(bias) == dtype
    return dtype == np.float16 and bias is None and mask is None


# -- Attention ------------------------------------------------------------------------------


def _added(ctx: Context, query: Value, key: Value, bias: Value | None, mask: Value | None) -> Value | None:
    """Bias and mask as one float tensor [·, ·, T, S] to be added to the logits: `Attention` wants the last two
    dimensions in full.
    """
    added = _as_bias(ctx, bias, mask, np.float32)
    if added is None:
        return None
    lengths = ctx.known_dims(query)[-3], ctx.known_dims(key)[-3]
    return ctx.broadcast(added, (*ctx.known_dims(added)[:2], *lengths))


def _as_bias(ctx: Context, bias: Value | None, mask: Value | None, dtype: DtypeLike) -> Value | None:
    """Bias and mask as one tensor that broadcasts with the logits; None where there is neither."""
    if mask is None:
        return bias
    unmasked = ctx.constant(0, dtype) if bias is None else bias
    return ctx.op.Where(mask, unmasked, ctx.constant(_MASKED, dtype))


def _attention(
    ctx: Context, query: Value, key: Value, value: Value, added: Value | None, scale: float, is_causal: bool
) -> Value:
    """Attention by the operator on [B, ·, heads · H], which needs no transposes."""
    (*_, heads, features), (*_, key_heads, _) = ctx.known_dims(query), ctx.known_dims(key)
    is_default = isinstance(features, int) and np.isclose(scale, features**-0.5, rtol=1e-7, atol=0)
    if not isinstance(heads, int) or not isinstance(key_heads, int):
        ctx.decline("the number of heads is an attribute of Attention, which is no number here")
    return ctx.op.Attention(
        *(_with_merged_heads(ctx, x) for x in (query, key, value)), *([] if added is None else [added]),
        q_num_heads=heads, kv_num_heads=key_heads, is_causal=1 if is_causal else None,
        scale=None if is_default else scale,
        dims=_merged_dims((*ctx.known_dims(query)[:-1], ctx.known_dims(value)[-1])),
    )  # fmt: skip


def _with_merged_heads(ctx: Context, x: Value) -> Value:
    return ctx.reshape(x, _merged_dims(ctx.known_dims(x)))


def _merged_dims(dims: Dims) -> Dims:
    """[B?, length, heads, H] → [B, length, heads · H]."""
    *batch, length, heads, features = dims
    return (*(batch or [1]), length, heads * features)


# -- products -------------------------------------------------------------------------------


def _matmuls(
    ctx: Context, query: Value, key: Value, value: Value, bias: Value | None, mask: Value | None, scale: float,
    softmax_in_float32: bool,
) -> Value:  # fmt: skip
    """[B, T, N, H], by `MatMul`, `Softmax`, `MatMul`; the G = N / K queries of a group go through as one."""
    dtype = ctx.dtype(query)
    logits_dtype = jnp.promote_types(dtype, np.float32)
    query, key, value = (_with_batch_axis(ctx, x) for x in (query, key, value))
    (batch, length, heads, features), (_, keys, groups, _) = ctx.known_dims(query), ctx.known_dims(key)
    grouped = (batch, groups, heads // groups * length)
    q = ctx.reshape(ctx.transpose(ctx.cast(query, logits_dtype), (0, 2, 1, 3)), (*grouped, features))
    k = ctx.transpose(ctx.cast(key, logits_dtype), (0, 2, 3, 1))
    logits = ctx.op.Mul(ctx.op.MatMul(q, k, dims=(*grouped, keys)), ctx.constant(scale, logits_dtype))
    logits = ctx.reshape(logits, (batch, heads, length, keys))
    if (added := _as_bias(ctx, bias, mask, logits_dtype)) is not None:
        logits = ctx.op.Add(logits, ctx.cast(added, logits_dtype))
    logits = ctx.cast(logits, np.float32) if softmax_in_float32 else logits
    softmax = ctx.op.Softmax(logits, axis=-1, dims=(batch, heads, length, keys))
    probabilities = ctx.reshape(ctx.cast(softmax, dtype), (*grouped, keys))
    features = ctx.known_dims(value)[-1]
    out = ctx.op.MatMul(probabilities, ctx.transpose(value, (0, 2, 1, 3)), dims=(*grouped, features))
    return ctx.transpose(ctx.reshape(out, (batch, heads, length, features)), (0, 2, 1, 3))


def _with_batch_axis(ctx: Context, x: Value) -> Value:
    return x if len(ctx.known_dims(x)) == 4 else ctx.unsqueeze(x, [0])
