"""Cases of `embedding`."""

from __future__ import annotations

import functools

import numpy as np
from jax2onnx_core import Case, construct, expect_graph
from keras import layers

from jax2onnx_keras._built import built

__all__ = ["cases"]

_NASTY = np.array([[0, 10, -1, -11], [11, -12, 2**31 - 1, -(2**31)]], np.int32)
# NaN for what is not in the table.
_NAN = "Clip -> Equal -> Unsqueeze -> Where:BxTx1 -> Mul"
_TABLE = (None, None), 11, 8


cases = [
    Case(
        "embedding",
        built(layers.Embedding, *_TABLE),
        [_NASTY],
        expect=expect_graph("Clip -> Gather -> Mul", counts={"Gather": 1, "Where": 1}),
    ),
    Case(
        "embedding_any_length",
        built(layers.Embedding, *_TABLE),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Gather:BxTx8 -> Mul", _NAN, match="exact"),
    ),
    Case(
        "embedding_of_floats",
        built(layers.Embedding, *_TABLE),
        [("B", "T")],
        expect=expect_graph("Cast -> IsNaN -> Where -> Clip -> Cast", "Gather:BxTx8 -> Mul", _NAN, match="exact"),
    ),
    Case(
        "embedding_of_one",
        built(layers.Embedding, (None, None), 1, 8),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Clip -> Equal -> Unsqueeze -> Where -> Mul:BxTx8", absent=["Gather"]),
    ),
    Case(
        "reversible_embedding",
        built(layers.ReversibleEmbedding, *_TABLE),
        [(("B", "T"), np.int32)],
        expect=expect_graph("Gather"),
    ),
    Case(
        "reversible_embedding_in_reverse",
        construct(functools.partial, built(layers.ReversibleEmbedding, *_TABLE), reverse=True),
        [("B", 5, 8)],
        covers=("nn.unembedding",),
        expect="Reshape -> Gemm -> Reshape",
    ),
]
