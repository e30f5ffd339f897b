"""Cases of `training_flag`."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph, with_dtype, with_rngs

__all__ = ["cases"]

_FLAG = {"deterministic": ((), "bool")}


class _Block(nnx.Module):
    """Attention and a normalisation, with dropout, as in a transformer: [B, T, 8] → [B, T, 8]."""

    def __init__(self, *, param_dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        options: Any = {"param_dtype": param_dtype, "rngs": rngs}
        self.attention = nnx.MultiHeadAttention(2, 8, dropout_rate=0.1, decode=False, **options)
        self.norm = nnx.BatchNorm(8, **options)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: jax.Array, *, deterministic: jax.Array) -> jax.Array:
        # Flax annotates the flags as bool; its layers compute with arrays as well.
        y = self.norm(x, use_running_average=deterministic)  # type: ignore[arg-type]
        y = self.attention(y, deterministic=deterministic)  # type: ignore[arg-type]
        return x + self.dropout(y, deterministic=deterministic)  # type: ignore[arg-type]


cases = [
    Case(
        "dropout",
        construct(nnx.Dropout, 0.5, rngs=with_rngs(0)),
        [("B", 8)],
        options={"kwargs": _FLAG},
        covers=("nnx.dropout",),
        expect=expect_graph("If", absent=["Where"]),
    ),
    Case(
        "dropout_of_everything",
        construct(nnx.Dropout, 1.0, rngs=with_rngs(0)),
        [("B", 8)],
        options={"kwargs": _FLAG},
        expect=["If:Bx8", "Shape -> Concat:2"],
    ),
    Case(
        "block",
        construct(_Block, param_dtype=with_dtype(), rngs=with_rngs(0)),
        [("B", "T", 8)],
        options={"kwargs": _FLAG},
        covers=("nnx.attention",),
        expect=expect_graph(counts={"If": 3}),
    ),
]
