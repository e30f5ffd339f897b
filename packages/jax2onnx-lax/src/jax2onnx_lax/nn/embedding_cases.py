"""Cases of `embedding`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Case, bind_composite, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE
from jax2onnx_lax.nn._weights import weights

__all__ = ["cases"]

_NASTY = np.array([[0, 10, -1, -11], [11, -12, 2**31 - 1, -(2**31)]], np.int32)


def _embedding(mode: Literal["fill", "clip"], rows: int = 11) -> Callable[[jax.Array], jax.Array]:
    def embedding(indices: jax.Array) -> jax.Array:
        table = weights(rows, 6).astype(np.float32)

        def original() -> jax.Array:
            # `take` clips negative indices too, instead of counting them from the end.
            wrapped = jnp.where(indices < 0, indices + rows, indices) if mode == "clip" else indices
            return jnp.take(table, wrapped, axis=0, mode=mode)

        return bind_composite("nn.embedding", Call(table, indices, mode=mode), original)

    return embedding


def _unembedding(x: jax.Array) -> jax.Array:
    table = weights(11, 6).astype(x.dtype)
    return bind_composite("nn.unembedding", Call(x, table), lambda: x @ table.T)


_covers = ("nn.embedding",)

cases = [
    Case(
        "nn_embedding",
        _embedding("fill"),
        [_NASTY],
        covers=_covers,
        expect=expect_graph("Clip -> Gather -> Mul", counts={"Gather": 1, "Where": 1}),
    ),
    Case(
        "nn_embedding_of_finite",
        _embedding("fill"),
        [_NASTY[:1]],
        covers=_covers,
        expect="Clip -> Gather",
        options=ASSUME_FINITE,
    ),
    Case(
        "nn_embedding_clipped",
        _embedding("clip"),
        [_NASTY[:, :3]],
        covers=_covers,
        expect="Clip -> Gather",
    ),
    Case(
        "nn_embedding_of_bytes",
        _embedding("fill", 256),
        [(("B", "T"), np.uint8)],
        covers=_covers,
        expect=expect_graph("Gather", absent=["Where", "Clip"]),
    ),
    *(
        Case(
            f"nn_embedding_of_signed_bytes_{rows}",
            _embedding("fill", rows),
            [np.array([0, 5, 127, -1, -100, -128], np.int8)],
            covers=_covers if rows == 128 else (),
            expect="Cast -> Gather" if rows == 128 else expect_graph("Gather", counts={"Gather": 1}),
        )
        for rows in (128, 129)
    ),
    Case(
        "nn_unembedding",
        _unembedding,
        [("B", "T", 6)],
        covers=("nn.unembedding",),
        expect=expect_graph("Reshape -> Gemm -> Reshape", match="path"),
    ),
]
