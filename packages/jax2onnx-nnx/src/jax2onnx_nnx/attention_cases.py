"""Cases of `attention`, of `nnx.MultiHeadAttention` and of `nnx.Dropout`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
from flax import nnx
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph, with_dtype, with_rngs

__all__ = ["cases"]

_OPTIONS = {"param_dtype": with_dtype(), "rngs": with_rngs(0)}
_TOKENS = [("B", "T", 8)]
_ATTENTION = expect_graph("MatMul -> Add -> Attention -> MatMul -> Add", counts={"MatMul": 4, "Add": 4, "Attention": 1},
                          match="exact")  # fmt: skip


class SelfAttention(nnx.Module):
    """Self-attention with arguments of the call fixed."""

    def __init__(self, call: dict[str, bool], **options: Any) -> None:
        self.call = call
        self.attn = nnx.MultiHeadAttention(decode=False, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.attn(x, **self.call)  # type: ignore[arg-type]  # flags, of all arguments


class Masked(nnx.Module):
    """Attention to the keys that a threshold lets through; some rows see none."""

    def __init__(self, *, param_dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        self.attn = nnx.MultiHeadAttention(2, 8, decode=False, param_dtype=param_dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.attn(x, mask=(x[:, None, :, :1] + x[:, None, None, :, 0]) > 0.5, is_causal=True)


def _unless_takes(function: Callable[..., object], parameter: str) -> Mapping[Literal["f32", "f64"], str]:
    """The `skip` of a case that needs a parameter which the oldest supported Flax lacks."""
    if parameter in inspect.signature(function).parameters:
        return {}
    reason = f"this version of Flax has no `{parameter}`"
    return {"f32": reason, "f64": reason}


_NO_CAUSAL = _unless_takes(nnx.MultiHeadAttention.__call__, "is_causal")
_NO_GROUPS = _unless_takes(nnx.MultiHeadAttention.__init__, "num_kv_heads")

# JAX rounds logits to float32 for its softmax, in double precision too.
_LOOSE = 2e-5

cases = [
    Case(
        "attention",
        construct(SelfAttention, {}, num_heads=2, in_features=8, **_OPTIONS),
        _TOKENS,
        expect=_ATTENTION,
        rtol=_LOOSE,
    ),
    Case(
        "attention_causal",
        construct(SelfAttention, {"is_causal": True}, num_heads=2, in_features=8, **_OPTIONS),
        _TOKENS,
        expect=_ATTENTION,
        rtol=_LOOSE,
        skip=_NO_CAUSAL,
    ),
    Case(
        "attention_masked",
        construct(Masked, **_OPTIONS),
        _TOKENS,
        expect=expect_graph(
            "Greater:Bx1xTxT -> And:Bx1xTxT -> Where:Bx1xTxT -> Attention:BxTx8 -> MatMul -> Add",
            "GreaterOrEqual:TxT -> And",
            counts={"MatMul": 4, "Where": 1, "Attention": 1},
        ),
        rtol=_LOOSE,
        skip=_NO_CAUSAL,
    ),
    Case(
        "attention_of_grouped_queries",
        construct(SelfAttention, {}, num_heads=4, num_kv_heads=2, in_features=8, **_OPTIONS),
        _TOKENS,
        expect=_ATTENTION,
        rtol=_LOOSE,
        skip=_NO_GROUPS,
    ),
    Case(
        "attention_with_a_dropout_rate",
        construct(SelfAttention, {"deterministic": True}, num_heads=2, in_features=8, dropout_rate=0.1, **_OPTIONS),
        _TOKENS,
        expect=_ATTENTION,
        rtol=_LOOSE,
    ),
    Case(
        "dot_product_attention_with_a_dropout_rate",
        functools.partial(nnx.dot_product_attention, dropout_rate=0.1, deterministic=True),
        [("B", "T", 2, 4), ("B", "S", 2, 4), ("B", "S", 2, 4)],
        covers=("nn.attention",),
        expect=expect_graph("Reshape -> Attention -> Reshape"),
        rtol=_LOOSE,
    ),
    Case(
        "attention_normalising_queries",
        construct(SelfAttention, {}, num_heads=2, in_features=8, normalize_qk=True, **_OPTIONS),
        _TOKENS,
        expect=expect_graph(counts={"LayerNormalization": 2, "Attention": 1}),
        rtol=_LOOSE,
    ),
    Case(
        "attention_opset_18",
        construct(SelfAttention, {"is_causal": True}, num_heads=2, in_features=8, **_OPTIONS),
        _TOKENS,
        expect=expect_graph("MatMul -> Mul -> Add -> Softmax -> MatMul"),
        rtol=_LOOSE,
        skip=_NO_CAUSAL,
        options={"opset": 18},
    ),
    Case(
        "dropout",
        construct(nnx.Dropout, 0.5, deterministic=True, rngs=with_rngs(0)),
        _TOKENS,
        expect="Identity",
    ),
]
