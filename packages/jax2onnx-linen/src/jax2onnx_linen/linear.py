"""`nn.DenseGeneral` and `nn.Einsum` as "nn.linear"; `nn.Dense` needs no composite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.bindings import axis_from_end
from jax2onnx_lax.nn.linear import contracted_axes

from jax2onnx_linen._layer import parameters, promoted

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:DenseGeneral.__call__.__wrapped__", name="nn.linear", keep_under_vmap=(0,))
def dense_general(self: nn.DenseGeneral, inputs: jax.Array) -> Call | None:
    """Kept because the bias would be added behind the reshape to heads, which then does not meet that of the
    attention: seven reshapes more.
    """
    axes = self.axis if isinstance(self.axis, Sequence) else (self.axis,)
    count = len(axes)
    if self.dot_general or self.dot_general_cls or self.batch_dims:
        return None
    # The layer sorts them.
    if {axis_from_end(axis, inputs.ndim) for axis in axes} != set(range(-count, 0)):
        return None
    return _projection(self, inputs, count)


@composites.call("flax.linen:Einsum.__call__.__wrapped__", name="nn.linear", keep_under_vmap=(0,))
def einsum(self: nn.Einsum, inputs: jax.Array, einsum_str: str | None = None) -> Call | None:
    """Kept because the bias would be added behind the reshape to heads, which then does not meet that of the
    attention: seven reshapes more.
    """
    equation = einsum_str or self.einsum_str
    count = None if self.preferred_element_type or not equation else contracted_axes(equation, inputs.ndim)
    return None if count is None else _projection(self, inputs, count)


def _projection(layer: nn.DenseGeneral | nn.Einsum, inputs: jax.Array, contracted: int) -> Call | None:
    found = parameters(layer, kernel=True, bias=layer.use_bias)
    arrays = promoted(layer, inputs, *found) if found else None
    return None if arrays is None else Call(*arrays, contracted=contracted)
