"""The operation "recurrence.linear_attention": matrices written by keys and read by queries, as `com.microsoft.LinearAttention`."""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Context, Rules, Value, bind_composite
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.attributes import Attribute

from jax2onnx_lax.recurrence._sequential import sequential_scan

__all__ = ["OPERATOR", "UpdateRule", "linear_attention", "rules"]

rules = Rules()

OPERATOR = "com.microsoft.LinearAttention"
_OPERATION = "recurrence.linear_attention"

UpdateRule = Literal["linear", "gated", "delta", "gated_delta"]


def linear_attention(
    query: jax.Array, key: jax.Array, value: jax.Array, state: jax.Array, decay: jax.Array | None,
    beta: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """`S' = D S + k (beta (v - (D S)ᵀ k))ᵀ` with `D = exp(decay)`, or `S' = D S + k vᵀ`, in each step, and `y = S'ᵀ q`.

    Args:
      query: [B, T, G · H, K]; G queries read each state.
      key: [B, T, H, K].
      value: [B, T, H, V].
      state: the first state, [B, H, K, V].
      decay: the logarithm of the decay, [B, T, H, K] or [B, T, H, 1]; None for a state that does not decay.
      beta: the strength of the delta rule, [B, T, H]; None without that rule.

    Returns:
      The results [B, T, G · H, V] and the last state.
    """
    optional = [x for x in (decay, beta) if x is not None]
    rule: UpdateRule = "linear"
    if beta is not None:
        rule = "delta" if decay is None else "gated_delta"
    elif decay is not None:
        rule = "gated"
    packed = [x.reshape(*x.shape[:2], -1) if x.ndim == 4 else x for x in (query, key, value, *optional)]
    sizes = query.shape[2], key.shape[2]
    original = functools.partial(_in_steps, query, key, value, state, decay, beta)

    def packed_original() -> tuple[jax.Array, jax.Array]:
        y, last = original()
        return y.reshape(*y.shape[:2], -1), last

    y, last = bind_composite(
        _OPERATION,
        Call(*packed[:3], state, *packed[3:], rule=rule, query_heads=sizes[0], heads=sizes[1]),
        packed_original,
    )
    return y.reshape(*query.shape[:3], value.shape[3]), last


def _in_steps(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    state: jax.Array,
    decay: jax.Array | None,
    beta: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    group = query.shape[2] // key.shape[2]
    rows = [jnp.moveaxis(x, 1, 0) for x in (query, key, value, *(x for x in (decay, beta) if x is not None))]

    def step(old: jax.Array, row: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
        q, k, v, *rest = row
        new = old if decay is None else old * jnp.exp(rest[0])[..., None]
        if beta is not None:
            v = (v - jnp.einsum("bhkv,bhk->bhv", new, k)) * rest[-1][..., None]
        new = new + k[..., None] * v[..., None, :]
        y = jnp.einsum("bhkv,bhgk->bhgv", new, q.reshape(*k.shape[:2], group, k.shape[2]))
        return new, y.reshape(*q.shape[:2], v.shape[2])

    last, y = sequential_scan(step, state, rows)
    return jnp.moveaxis(y, 0, 1), last


def is_taken(ctx: Context, dtype: Dtype) -> bool:
    """Whether the target has a kernel that computes the operation for a dtype, faithfully and fast."""
    return np.dtype(dtype) == np.float32 and ctx.supports(OPERATOR, dtype)


@rules.lower(_OPERATION)
def lower_linear_attention(
    ctx: Context, query: Value, key: Value, value: Value, state: Value, *optional: Value, rule: UpdateRule,
    query_heads: int, heads: int,
) -> tuple[Value, ...]:  # fmt: skip
    """One node."""
    if not is_taken(ctx, ctx.dtype(query)):
        ctx.decline(f"{ctx.target.name} has no LinearAttention for {ctx.dtype(query)}")
    decay = optional[0] if "gated" in rule else None
    beta = optional[-1] if "delta" in rule else None
    inputs = [query, key, value, state, decay, beta]
    while inputs[-1] is None:
        inputs.pop()
    attributes: dict[str, Attribute] = {
        "q_num_heads": query_heads,
        "kv_num_heads": heads,
        "scale": 1.0,
        "update_rule": rule,
    }
    dtype = ctx.dtype(query)
    dims = ctx.avals_out[0].shape
    results = ctx.emit("LinearAttention", inputs, "com.microsoft", 2, [dtype, dtype], dims, attributes)
    ctx.set_dims(results[1], ctx.avals_out[1].shape)
    return results
