"""Cases of `embedding`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax2onnx_core import Case, construct, with_dtype
from jax2onnx_lax.nn.flax_layers import embedding_cases

from jax2onnx_linen._trained import library, trained

__all__ = ["cases"]


def _mapped(**options: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.vmap(trained(nn.Embed, (1,), 256, 8, **options))


cases = [
    *embedding_cases(library),
    Case(
        "embed_mapped",
        construct(_mapped, dtype=with_dtype(), of=np.int32),
        [(("B", "T"), np.uint8)],
        expect="Cast -> Gather",
    ),
]
