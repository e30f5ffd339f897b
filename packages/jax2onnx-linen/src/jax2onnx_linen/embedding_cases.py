"""Cases of `embedding`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

_OPTIONS = {"dtype": with_dtype(), "of": np.int32}
_NASTY = np.array([[0, 10, -1, -11], [11, -12, 2**31 - 1, -(2**31)]], np.int32)


class Tied(nn.Module):
    """Looks tokens up and scores them by the same table."""

    def setup(self) -> None:
        self.embed = nn.Embed(11, 8)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.embed.attend(self.embed(tokens))


def _attend(**options: Any) -> Callable[[jax.Array], jax.Array]:
    return trained(nn.Embed, (1,), 11, 8, **options).attend


def _mapped(**options: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.vmap(trained(nn.Embed, (1,), 256, 8, **options))


cases = [
    Case(
        "embed",
        construct(trained, nn.Embed, (1,), 11, 8, **_OPTIONS),
        [_NASTY],
        covers=("nn.embedding",),
        expect=expect_graph("Clip -> Gather -> Mul", counts={"Gather": 1, "Where": 1}),
    ),
    Case(
        "embed_any_length",
        construct(trained, nn.Embed, (1,), 11, 8, **_OPTIONS),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Gather:BxTx8 -> Mul", "Clip -> Equal -> Where:BxT -> Unsqueeze -> Mul", match="exact"),
    ),
    Case(
        "embed_mapped",
        construct(_mapped, **_OPTIONS),
        [(("B", "T"), np.uint8)],
        expect=expect_graph("Cast -> Gather", match="exact"),
    ),
    Case(
        "embed_one",
        construct(trained, nn.Embed, (1,), 1, 8, **_OPTIONS),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Shape -> Concat -> Expand:BxTx8", counts={"Shape": 2}, match="exact"),
    ),
    Case(
        "attend",
        construct(_attend, **_OPTIONS),
        [("B", 5, 8)],
        covers=("nn.unembedding",),
        expect=expect_graph("Reshape -> Gemm -> Reshape", match="exact"),
    ),
    Case(
        "tied",
        construct(trained, Tied, (1,), **_OPTIONS),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Gather", "Gemm"),
    ),
]
