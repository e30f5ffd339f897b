"""Cases of `attention`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case, construct, expect_graph, with_dtype

__all__ = ["cases"]

_TYPE = {"dtype": with_dtype()}
_TOKENS = [("B", "T", 8)]
_BIASED = {f"use_{part}_bias": True for part in ("query", "key", "value", "output")}
_PLAIN = expect_graph("MatMul -> Attention -> MatMul", counts={"MatMul": 4, "Attention": 1}, match="exact")


def _self_attention(mask: Any = None, **options: Any) -> Callable[[jax.Array], jax.Array]:
    layer = eqx.nn.MultiheadAttention(2, 8, key=jax.random.key(0), **options)
    return jax.vmap(lambda x: layer(x, x, x, mask))


def _causal(**options: Any) -> Callable[[jax.Array], jax.Array]:
    layer = eqx.nn.MultiheadAttention(2, 8, key=jax.random.key(0), **options)
    return jax.vmap(lambda x: layer(x, x, x, jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))))


def _cross_attention(**options: Any) -> Callable[..., jax.Array]:
    layer = eqx.nn.MultiheadAttention(2, 8, key_size=6, value_size=6, key=jax.random.key(0), **options)
    return jax.vmap(lambda x, memory, mask: layer(x, memory, memory, mask=mask))


def _rotary(**options: Any) -> Callable[[jax.Array], jax.Array]:
    layer = eqx.nn.MultiheadAttention(2, 8, key=jax.random.key(0), **options)
    rotate = eqx.nn.RotaryPositionalEmbedding(4, dtype=options["dtype"])

    def rotated(query: jax.Array, key: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        query, key = (jax.vmap(rotate, in_axes=1, out_axes=1)(x) for x in (query, key))
        return query, key, value

    return jax.vmap(lambda x: layer(x, x, x, process_heads=rotated))


_MASKED = {"MatMul": 4, "Where": 1, "Attention": 1}
_NONE_ALLOWED = np.array([[True, False, True], [False, False, False], [False, True, True]])

cases = [
    Case("attention", construct(_self_attention, **_TYPE), _TOKENS, covers=("nn.attention",), expect=_PLAIN),
    Case(
        "attention_biased",
        construct(_self_attention, **_BIASED, **_TYPE),
        _TOKENS,
        expect=expect_graph(
            "MatMul -> Add -> Attention -> MatMul -> Add", counts={"MatMul": 4, "Add": 4, "Attention": 1}, match="exact"
        ),
    ),
    Case(
        "attention_of_other_sizes",
        construct(_self_attention, qk_size=3, vo_size=5, output_size=7, **_TYPE),
        _TOKENS,
        expect=expect_graph(
            "MatMul:BxTx6 -> Attention:BxTx10 -> MatMul:BxTx7", counts={"MatMul": 4, "Attention": 1}, match="exact"
        ),
    ),
    Case(
        "attention_with_a_dropout_rate",
        construct(_self_attention, dropout_p=0.5, inference=True, **_TYPE),
        _TOKENS,
        expect=_PLAIN,
    ),
    Case(
        "attention_all_masked",
        construct(_self_attention, _NONE_ALLOWED, **_TYPE),
        [("B", 3, 8)],
        expect=expect_graph("Where:1x1x3x3 -> Attention -> MatMul", counts=_MASKED, match="exact"),
    ),
    Case(
        "attention_masked_by_head",
        construct(_self_attention, np.stack([_NONE_ALLOWED, _NONE_ALLOWED.T]), **_TYPE),
        [("B", 3, 8)],
        expect=expect_graph("Where:1x2x3x3 -> Attention -> MatMul", counts=_MASKED, match="exact"),
    ),
    Case("attention_causal", construct(_causal, **_TYPE), _TOKENS, expect=expect_graph(counts={"Attention": 1})),
    Case(
        "cross_attention",
        construct(_cross_attention, **_TYPE),
        [("B", "T", 8), ("B", "S", 6), (("B", "T", "S"), np.bool_)],
        expect=expect_graph(counts={"MatMul": 4, "Attention": 1}),
    ),
    Case(
        "attention_rotary",
        construct(_rotary, **_TYPE),
        [("B", 5, 8)],
        expect=expect_graph(counts={"RotaryEmbedding": 2, "Attention": 1}),
    ),
    Case(
        "attention_opset_18",
        construct(_self_attention, **_TYPE),
        _TOKENS,
        options={"opset": 18},
        expect=expect_graph("MatMul -> Mul -> Softmax -> MatMul"),
    ),
]
