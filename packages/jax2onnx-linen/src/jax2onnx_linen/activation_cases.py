"""Cases of `activation`."""

from __future__ import annotations

import flax.linen as nn
from jax2onnx_core import Case, construct, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

cases = [
    Case(
        "prelu",
        construct(trained, nn.PReLU, (1, 8), dtype=with_dtype()),
        [("B", 8)],
        covers=("nn.prelu",),
        expect="PRelu",
        values="special",
    ),
]
