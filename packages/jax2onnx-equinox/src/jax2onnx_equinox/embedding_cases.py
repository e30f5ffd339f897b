"""Cases of `embedding`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_equinox._mapped import mapped

__all__ = ["cases"]

_TYPE = {"dtype": with_dtype()}
_GATHER = "Clip -> Gather"


def _embedding(*, maps: int, dtype: Any) -> Any:
    return mapped(eqx.nn.Embedding(10, 8, dtype=dtype, key=jax.random.key(0)), maps)


def _rotary(*, maps: int, dtype: Any, theta: float = 10_000.0) -> Any:
    return mapped(eqx.nn.RotaryPositionalEmbedding(8, theta=theta, dtype=dtype), maps)


cases = [
    Case(
        "embedding",
        construct(_embedding, maps=1, **_TYPE),
        [(("T",), np.int32)],
        covers=("nn.embedding",),
        expect=_GATHER,
    ),
    Case("embedding_mapped_twice", construct(_embedding, maps=2, **_TYPE), [(("B", "T"), np.int32)], expect=_GATHER),
    Case(
        "embedding_beyond_the_table",
        construct(_embedding, maps=1, **_TYPE),
        [jnp.array([-12, -10, -1, 9, 10, 99])],
        expect=_GATHER,
    ),
    Case(
        "embedding_of_wide_indices",
        construct(_embedding, maps=1, **_TYPE),
        [np.array([0, 2**31, 5, 2**32 - 1], np.uint32)],
        expect=expect_graph("Cast -> Clip -> Unsqueeze -> Gather -> Squeeze"),
    ),
    Case("embedding_of_one_index", construct(_embedding, maps=0, **_TYPE), [((), np.int32)], expect=_GATHER),
    Case(
        "rotary_embedding",
        construct(_rotary, maps=1, **_TYPE),
        [("B", 6, 8)],
        expect=["Shape -> Concat -> Expand -> RotaryEmbedding:Bx6x8", "Expand -> RotaryEmbedding"],
    ),
    Case(
        "rotary_embedding_of_any_length",
        construct(_rotary, maps=1, **_TYPE),
        [("B", "T", 8)],
        expect=expect_graph(
            "Range:T -> Cast -> Add -> Unsqueeze -> Mul:Tx4 -> Cos -> Unsqueeze -> Expand:BxTx4 -> RotaryEmbedding:BxTx8",
            "Sin -> Unsqueeze -> Expand:BxTx4 -> RotaryEmbedding",
            counts={"Range": 1, "Cast": 1, "RotaryEmbedding": 1},
        ),
    ),
]
