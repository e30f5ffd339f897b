"""Attention of queries that see no key, in layers with a dropout rate, which Keras gives 0."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from jax2onnx_core import to_onnx


@pytest.mark.parametrize("causal", [False, True])
def test_a_query_that_sees_no_key(causal):
    keras.utils.set_random_seed(0)
    layer = keras.layers.MultiHeadAttention(2, 4, dropout=0.1)
    layer.build((None, None, 8), (None, None, 8))

    def attend(x, mask):
        return layer(x, x, attention_mask=mask, use_causal_mask=causal)

    program = to_onnx(attend, [("B", "T", 8), (("B", "T", "T"), "bool")], constraints=["T >= 2"])
    mask = np.array([[[1, 0, 1], [0, 0, 0], [0, 1, 1]], [[0, 0, 0], [0, 0, 0], [1, 1, 1]]], bool)
    x = np.random.default_rng(0).standard_normal((2, 3, 8), np.float32)
    program.verify(inputs=[x, mask])
    assert "Attention" in {node.op_type for node in program.model.graph.all_nodes()}
