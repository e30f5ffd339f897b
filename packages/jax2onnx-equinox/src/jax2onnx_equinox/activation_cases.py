"""Cases of `activation`."""

from __future__ import annotations

import equinox as eqx
import jax
from jax2onnx_core import Case

__all__ = ["cases"]

cases = [
    Case("prelu", jax.vmap(eqx.nn.PReLU(0.25)), [("B", 4)], covers=("nn.prelu",), expect="PRelu", values="special"),
]
