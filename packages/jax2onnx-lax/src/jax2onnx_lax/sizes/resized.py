"""Arrays in shapes of which only a run of the model knows that they fit."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Context, Rules, Value
from jax2onnx_core.jax_types import Primitive
from jax2onnx_core.jaxprs import Dim, Dims

from jax2onnx_lax._compat import register_resizing

__all__ = ["relabelled", "resized", "rules"]

rules = Rules()
_resized_p = Primitive("jax2onnx_resized")
register_resizing(_resized_p)
rules.componentwise(_resized_p.name)


def resized(x: jax.Array, shape: Sequence[Dim]) -> jax.Array:
    """The array in another shape, whose sizes have the same product whenever this is computed."""
    if tuple(x.shape) == tuple(shape):
        return x
    result: jax.Array = _resized_p.bind(x, shape=tuple(shape), is_same=False)
    return result


def relabelled(x: jax.Array, shape: Sequence[Dim]) -> jax.Array:
    """The array, whose sizes have other labels: they are the same whenever this is computed."""
    if tuple(x.shape) == tuple(shape):
        return x
    result: jax.Array = _resized_p.bind(x, shape=tuple(shape), is_same=True)
    return result


@rules.lower(_resized_p.name)
def lower_resized(ctx: Context, x: Value, *, shape: Dims, is_same: bool) -> Value:
    """A copy with other labels, or in another shape."""
    return ctx.op.Identity(x, dims=shape) if is_same else ctx.reshape(x, shape)
