"""`nn.Dropout` with a flag that is known at run time only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Composites, Replacement

from jax2onnx_linen._layer import plain

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:Dropout.__call__.__wrapped__", name="linen.dropout")
def dropout(
    self: nn.Dropout,
    inputs: jax.Array,
    deterministic: bool | jax.Array | None = None,
    rng: jax.Array | None = None,
) -> Replacement | None:
    """A branch at run time: where the flag, a scalar input of the model, says inference, nothing is drawn or dropped.

    Kept because the layer asks in Python for its flag, which fails where that is an input of the model.
    """
    import flax.linen as nn

    flag = self.deterministic if deterministic is None else deterministic
    if not isinstance(flag, jax.core.Tracer) or self.rate == 0.0:
        return None
    key = self.make_rng(self.rng_collection) if rng is None else rng
    layer = plain(self, nn.Dropout, deterministic=False)
    return Replacement(jax.lax.cond(flag, lambda: inputs, lambda: layer.apply({}, inputs, rng=key)))
