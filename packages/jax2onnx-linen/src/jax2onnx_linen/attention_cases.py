"""Cases of `attention`, and of the layers around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}
_TOKENS, _SHAPE = [("B", "T", 8)], (1, 3, 8)
_ATTENTION = expect_graph("MatMul -> Add -> Attention -> MatMul -> Add", counts={"MatMul": 4, "Add": 4, "Attention": 1},
                          match="exact")  # fmt: skip


class SelfAttention(nn.Module):
    """Self-attention with options of the layer."""

    options: Mapping[str, Any]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.MultiHeadDotProductAttention(2, **self.options)(x)


class Masked(nn.Module):
    """Causal attention to the keys that a threshold lets through; some rows see none."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        padding = nn.make_attention_mask(x[..., 0] > -1, x[..., 1] > 0.5)
        mask = nn.combine_masks(nn.make_causal_mask(x[..., 0]), padding)
        return nn.MultiHeadDotProductAttention(2)(x, mask=mask)


class Causal(nn.Module):
    """Attention to the tokens so far."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.MultiHeadDotProductAttention(2)(x, mask=nn.make_causal_mask(x[..., 0]))


class Cross(nn.Module):
    """Attention of queries to other tokens."""

    @nn.compact
    def __call__(self, x: jax.Array, memory: jax.Array | None = None) -> jax.Array:
        return nn.MultiHeadDotProductAttention(2)(x, x if memory is None else memory)


def _case(name: str, **options: Any) -> Case:
    fn = construct(trained, SelfAttention, _SHAPE, options, **_DTYPE)
    return Case(name, fn, _TOKENS, expect=_ATTENTION, rtol=1e-5)


def _of_weights(**options: Any) -> Callable[[jax.Array], tuple[jax.Array, Any]]:
    """Attention whose weights are a result."""
    module, variables = trained(nn.MultiHeadDotProductAttention, _SHAPE, 2, **options).unbind()

    def call(x: jax.Array) -> tuple[jax.Array, Any]:
        y, state = module.apply(variables, x, sow_weights=True, mutable=["intermediates"])
        return y, state["intermediates"]["attention_weights"][0]

    return call


def _by_a_flag(**options: Any) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Attention that drops weights where an input says so."""
    options |= {"dropout_rate": 0.5, "deterministic": True}
    module, variables = trained(nn.MultiHeadDotProductAttention, _SHAPE, 2, **options).unbind()
    module = module.copy(deterministic=None)

    def call(x: jax.Array, deterministic: jax.Array) -> jax.Array:
        return module.apply(variables, x, deterministic=deterministic, rngs={"dropout": jax.random.key(0)})

    return call


cases = [
    _case("attention"),
    _case("attention_with_a_dropout_rate", dropout_rate=0.1, deterministic=True),
    Case(
        "attention_masked",
        construct(trained, Masked, _SHAPE, **_DTYPE),
        _TOKENS,
        expect=expect_graph(
            "Greater:BxT -> Unsqueeze -> And:BxTxT -> Unsqueeze:Bx1xTxT",
            "And:Bx1xTxT -> Where:Bx1xTxT -> Attention:BxTx8 -> MatMul -> Add",
            counts={"MatMul": 4, "Where": 1, "Attention": 1},
        ),
        rtol=1e-5,
    ),
    Case(
        "attention_to_others",
        construct(trained, Cross, _SHAPE, **_DTYPE),
        [("B", "T", 8), ("B", "S", 8)],
        expect=_ATTENTION,
        rtol=1e-5,
    ),
    Case(
        "attention_normalising_queries",
        construct(trained, SelfAttention, _SHAPE, {"normalize_qk": True}, **_DTYPE),
        _TOKENS,
        expect=expect_graph(counts={"LayerNormalization": 2, "Attention": 1}),
        rtol=1e-5,
    ),
    Case(
        "attention_whose_weights_are_a_result",
        construct(_of_weights, **_DTYPE),
        _TOKENS,
        expect=expect_graph("Transpose -> MatMul:Bx2xTxT -> Softmax:Bx2xTxT -> MatMul:Bx2xTx4", counts={"MatMul": 6}),
        rtol=1e-5,
    ),
    Case(
        "dot_product_attention",
        nn.dot_product_attention,
        [("B", "T", 2, 4), ("B", "S", 2, 4), ("B", "S", 2, 4)],
        covers=("nn.attention",),
        expect=expect_graph("Reshape -> Attention -> Reshape"),
        rtol=1e-5,
    ),
    Case(
        "attention_opset_18",
        construct(trained, SelfAttention, _SHAPE, {}, **_DTYPE),
        _TOKENS,
        expect=expect_graph("MatMul -> Mul -> Softmax -> MatMul"),
        rtol=1e-5,
        options={"opset": 18},
    ),
    Case(
        "attention_by_a_flag",
        construct(_by_a_flag, **_DTYPE),
        [*_TOKENS, ((), np.bool_)],
        covers=("linen.multi_head_attention",),
        expect=expect_graph(counts={"If": 1}),
        rtol=1e-5,
    ),
    Case(
        "attention_to_the_past",
        construct(trained, Causal, _SHAPE, **_DTYPE),
        [("B", 3, 8)],
        covers=("linen.causal_mask",),
        expect=expect_graph(counts={"Attention": 1}, absent=["GreaterOrEqual"]),
        rtol=1e-5,
    ),
]
