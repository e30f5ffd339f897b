"""Cases of `attention`."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax2onnx_core import Case, expect_graph
from keras import layers

from jax2onnx_keras._built import built
from jax2onnx_keras._compat import hides_causal_mask

__all__ = ["cases"]

_SHAPE, _TOKENS = (None, None, 8), [("B", "T", 8)]
_ATTENTION = expect_graph("MatMul -> Add -> Attention -> MatMul -> Add", counts={"MatMul": 4, "Add": 4, "Attention": 1},
                          match="exact")  # fmt: skip
# JAX rounds logits to float32 for its softmax, in double precision too.
_LOOSE = 2e-5


class SelfAttention(layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Attention of tokens to each other, with arguments of the call fixed."""

    def __init__(self, kind: type[layers.Layer], *sizes: int, dtype: str, call: dict[str, Any], **options: Any) -> None:
        super().__init__(dtype=dtype)
        self.attention = kind(*sizes, dtype=dtype, **options)
        self.arguments = call

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.attention.build(shape, shape)
        self.built = True

    def call(self, x: jax.Array) -> jax.Array:
        return self.attention(x, x, **self.arguments)


def _case(
    name: str,
    kind: Any = layers.MultiHeadAttention,
    sizes: tuple[int, ...] = (2, 4),
    *,
    call: dict[str, Any] | None = None,
    is_one_operator: bool = True,
    **options: Any,
) -> Case:
    layer = built(functools.partial(SelfAttention, kind, *sizes, call=call or {}, **options), _SHAPE)
    # Keras warns of a softmax over one token.
    more_than_one = {"constraints": ("T >= 2",)}
    expect = _ATTENTION if is_one_operator else expect_graph(counts={"Attention": 1})
    return Case(name, layer, _TOKENS, covers=("nn.attention",), expect=expect, rtol=_LOOSE, options=more_than_one)


cases = [
    _case("attention"),
    _case("attention_causal", call={"use_causal_mask": True}, is_one_operator=hides_causal_mask()),
    _case("attention_with_a_dropout_rate", dropout=0.1),
]
