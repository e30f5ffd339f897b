"""`nnx.LinearGeneral` and `nnx.Einsum` as "nn.linear"; `nnx.Linear` needs no composite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.bindings import axis_from_end
from jax2onnx_lax.nn.linear import contracted_axes

from jax2onnx_nnx._layer import parameter, promoted

if TYPE_CHECKING:
    from flax import nnx

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.nnx:LinearGeneral.__call__", name="nn.linear")
def linear_general(self: nnx.LinearGeneral, inputs: jax.Array, out_sharding: object = None) -> Call | None:
    """Kept because the bias would be added behind the reshape to heads, which then does not meet that of the
    attention: seven reshapes more.
    """
    custom = (self.dot_general, self.dot_general_cls, self.preferred_element_type, out_sharding)
    if any(x is not None for x in custom) or self.batch_axis:
        return None
    count = len(self.axis)
    if [axis_from_end(axis, inputs.ndim) for axis in self.axis] != list(range(-count, 0)):
        return None
    return _projection(self, inputs, count)


@composites.call("flax.nnx:Einsum.__call__", name="nn.linear")
def einsum(
    self: nnx.Einsum, inputs: jax.Array, einsum_str: str | None = None, out_sharding: object = None
) -> Call | None:
    """Kept because the bias would be added behind the reshape to heads, which then does not meet that of the
    attention: seven reshapes more.
    """
    equation = einsum_str or self.einsum_str
    custom = self.einsum_op is not jnp.einsum or self.preferred_element_type is not None or out_sharding is not None
    count = None if custom or not equation else contracted_axes(equation, inputs.ndim)
    if count is None or (self.bias is not None and self.bias.shape != self.kernel.shape[count:]):
        return None
    return _projection(self, inputs, count)


def _projection(layer: nnx.LinearGeneral | nnx.Einsum, inputs: jax.Array, contracted: int) -> Call | None:
    arrays = promoted(layer, inputs, parameter(layer.kernel), parameter(layer.bias))
    return None if arrays is None else Call(*arrays, contracted=contracted)
