"""Cases of `embedding`."""

from __future__ import annotations

import jax
import numpy as np
from flax import nnx
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph, with_dtype, with_rngs

__all__ = ["cases"]

_OPTIONS = {"param_dtype": with_dtype(), "rngs": with_rngs(0)}
_NASTY = np.array([[0, 10, -1, -11], [11, -12, 2**31 - 1, -(2**31)]], np.int32)


class Tied(nnx.Module):
    """Looks tokens up and scores them by the same table."""

    def __init__(self, *, param_dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(11, 8, param_dtype=param_dtype, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.embed.attend(self.embed(tokens))


class Attend(nnx.Module):
    """Scores vectors."""

    def __init__(self, *, param_dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(11, 8, param_dtype=param_dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.embed.attend(x)


cases = [
    Case(
        "embed",
        construct(nnx.Embed, 11, 8, **_OPTIONS),
        [_NASTY],
        covers=("nn.embedding",),
        expect=expect_graph("Clip -> Gather -> Mul", counts={"Gather": 1, "Where": 1}),
    ),
    Case(
        "embed_any_length",
        construct(nnx.Embed, 11, 8, **_OPTIONS),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Gather:BxTx8 -> Mul", "Clip -> Equal -> Where:BxT -> Unsqueeze -> Mul", match="exact"),
    ),
    Case(
        "embed_bytes",
        construct(nnx.Embed, 256, 8, **_OPTIONS),
        [(("B", "T"), np.uint8)],
        expect=expect_graph("Gather", absent=["Where", "Clip"]),
    ),
    Case(
        "embed_one",
        construct(nnx.Embed, 1, 8, **_OPTIONS),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Shape -> Concat -> Expand:BxTx8", counts={"Shape": 2}, match="exact"),
    ),
    Case(
        "attend",
        construct(Attend, **_OPTIONS),
        [("B", 5, 8)],
        covers=("nn.unembedding",),
        expect=expect_graph("Reshape -> Gemm -> Reshape", match="exact"),
    ),
    Case("attend_of_a_matrix", construct(Attend, **_OPTIONS), [("B", 8)], expect=expect_graph("Gemm", match="exact")),
    Case("tied", construct(Tied, **_OPTIONS), [(("B", "T"), np.int32)], expect=expect_graph("Gather", "Gemm")),
]
