"""`hk.Embed` as "nn.embedding"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites

if TYPE_CHECKING:
    import haiku as hk

__all__ = ["composites"]

composites = Composites()


@composites.call("haiku:Embed.__call__.__wrapped__", name="nn.embedding", keep_under_vmap=(1,))
def embed(
    self: hk.Embed,
    ids: jax.Array,
    lookup_style: str | hk.EmbedLookupStyle | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> Call | None:
    import haiku as hk

    style = lookup_style or self.lookup_style
    gathers = style.upper() == "ARRAY_INDEX" if isinstance(style, str) else style is hk.EmbedLookupStyle.ARRAY_INDEX
    if hk.running_init() or not gathers or not jnp.issubdtype(jnp.result_type(ids), jnp.integer):
        return None
    return Call(self.embeddings, ids, mode="clip")
