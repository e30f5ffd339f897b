"""Cases of `attention`, and of dropout."""

from __future__ import annotations

import haiku as hk
import jax
from jax2onnx_core import expect_graph

from jax2onnx_haiku._layer_case import layer_case

__all__ = ["cases"]

_TOKENS = [("B", "T", 8)]
_COUNTS = {"MatMul": 4, "Add": 4, "Attention": 1}
_ATTENTION = expect_graph("MatMul -> Add -> Attention -> MatMul -> Add", counts=_COUNTS, match="exact")


def _attention(
    query: jax.Array,
    other: jax.Array,
    mask: jax.Array | None = None,
    value_size: int | None = None,
    model_size: int | None = None,
) -> jax.Array:
    init = hk.initializers.VarianceScaling(0.3)
    return hk.MultiHeadAttention(2, 4, w_init=init, value_size=value_size, model_size=model_size)(
        query, other, other, mask
    )


cases = [
    layer_case(
        "attention", lambda x: _attention(x, x), _TOKENS, covers=("nn.attention",), expect=_ATTENTION, rtol=2e-5
    ),
    layer_case(
        "attention_to_others",
        lambda x, y: _attention(x, y, value_size=3, model_size=5),
        [("B", "T", 8), ("B", "S", 6)],
        expect=_ATTENTION,
        rtol=2e-5,
    ),
    layer_case(
        "attention_masked",
        lambda x: _attention(x, x, (x[:, None, :, :1] + x[:, None, None, :, 0]) > 0.5),
        _TOKENS,
        expect=expect_graph(counts={"Where": 1, "Attention": 1}),
        rtol=2e-5,
    ),
    layer_case(
        "attention_of_one_sequence",
        lambda x: _attention(x, x),
        [("T", 8)],
        expect=expect_graph(
            "MatMul -> Add -> Unsqueeze -> Attention:1xTx8 -> Squeeze -> MatMul -> Add",
            counts={**_COUNTS, "Unsqueeze": 3},
            match="exact",
        ),
        rtol=2e-5,
    ),
    layer_case(
        "attention_of_many_axes",
        lambda x: _attention(x, x),
        [("B", 2, "T", 8)],
        expect=expect_graph("Transpose -> MatMul:Bx2x2xTxT -> Div -> Softmax:Bx2x2xTxT", counts={"MatMul": 6}),
        rtol=2e-5,
    ),
    layer_case(
        "attention_opset_18",
        lambda x: _attention(x, x),
        _TOKENS,
        expect=expect_graph("MatMul -> Mul -> Softmax -> MatMul"),
        rtol=2e-5,
        options={"opset": 18},
    ),
    layer_case("dropout_of_nothing", lambda x: hk.dropout(jax.random.key(0), 0.0, x), _TOKENS, expect="Identity"),
]
