"""`eqx.nn.Dropout` with a flag that is known at run time only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Composites, Replacement

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["composites"]

composites = Composites()


@composites.call("equinox.nn:Dropout.__call__", name="equinox.dropout")
def dropout(
    self: eqx.nn.Dropout, x: jax.Array, *, key: jax.Array | None = None, inference: bool | jax.Array | None = None,
    deterministic: bool | None = None,
) -> Replacement | None:  # fmt: skip
    """A branch at run time: where the flag, a scalar input of the model, says inference, nothing is drawn or dropped.

    Kept because the layer asks in Python for its flag, which fails where that is an input of the model.
    """
    import equinox as eqx

    inference = self.inference if inference is None else inference
    if not isinstance(inference, jax.Array) or deterministic is not None or key is None:
        return None
    return Replacement(
        jax.lax.cond(inference, lambda: x, lambda: eqx.nn.Dropout.__call__(self, x, key=key, inference=False))
    )
