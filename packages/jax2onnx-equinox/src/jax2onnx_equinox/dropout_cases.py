"""Cases of `dropout`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]

_dropout = eqx.nn.Dropout(0.5)


def _flagged(x: jax.Array, inference: Any) -> jax.Array:
    return _dropout(x, key=jax.random.key(0), inference=inference)


cases = [
    Case("dropout", eqx.nn.Dropout(0.5, inference=True), [("B", 4)], expect="Identity"),
    Case(
        "dropout_by_a_flag",
        _flagged,
        [("B", 4), ((), np.bool_)],
        covers=("equinox.dropout",),
        expect=expect_graph(counts={"If": 1}),
    ),
]
