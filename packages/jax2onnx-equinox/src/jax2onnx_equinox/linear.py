"""`eqx.nn.Linear` as "nn.linear"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import of_one_float_type

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["composites"]

composites = Composites()


@composites.call("equinox.nn:Linear.__call__", name="nn.linear", keep_under_vmap=(0,))
def linear(self: eqx.nn.Linear, x: jax.Array, *, key: jax.Array | None = None) -> Call | None:
    """Kept because the weight, stored as [O, I], would be multiplied by a Gemm between two transposes."""
    of_scalar = self.in_features == "scalar"
    if x.ndim != (0 if of_scalar else 1) or not of_one_float_type(x, self.weight, self.bias):
        return None
    weight, bias = self.weight, self.bias
    if self.out_features == "scalar":
        weight, bias = weight[0], None if bias is None else bias[0]
    return Call(x[None] if of_scalar else x, weight, bias, contracted=1, transposed=True)
