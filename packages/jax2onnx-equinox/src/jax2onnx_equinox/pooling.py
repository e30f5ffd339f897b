"""The poolings of `eqx.nn` as "nn.avg_pool" and "nn.max_pool"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_core.jaxprs import is_static
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.padding import Pairs

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["composites"]

composites = Composites()


@composites.call(*[f"equinox.nn:AvgPool{n}d.__call__" for n in (1, 2, 3)], name="nn.avg_pool", keep_under_vmap=True)
def avg_pool(self: eqx.nn.Pool, x: jax.Array, *, key: jax.Array | None = None) -> Call | None:
    """Kept because the primitives divide a sum by the number of elements, which is computed where sizes are symbolic."""
    is_sum = self.operation is lax.add and self.init == 0
    return _pooling(self, x, count_include_pad=True) if is_sum else None


@composites.call(*[f"equinox.nn:MaxPool{n}d.__call__" for n in (1, 2, 3)], name="nn.max_pool", keep_under_vmap=True)
def max_pool(self: eqx.nn.Pool, x: jax.Array, *, key: jax.Array | None = None) -> Call | None:
    """Kept because the primitives guard a maximum against NaN, with an If and a dozen operators."""
    is_greatest = self.operation is lax.max and self.init == -jnp.inf
    return _pooling(self, x) if is_greatest else None


def _pooling(layer: eqx.nn.Pool, x: jax.Array, **options: bool) -> Call | None:
    if x.ndim != layer.num_spatial_dims + 1 or not of_one_float_type(x):
        return None
    windows = {"window": layer.kernel_size, "strides": layer.stride, "padding": _padding(layer, x.shape[1:])}
    return Call(x, **windows, channels_first=True, **options)


def _padding(layer: eqx.nn.Pool, space: Sequence[int]) -> Pairs:
    """The padding of each axis; with `use_ceil` one more stride at the end where the last window does not end with the axis."""
    entries = zip(space, layer.padding, layer.kernel_size, layer.stride, strict=True)
    return tuple(
        (low, high + stride if layer.use_ceil and (n + low + high - size) % stride else high)
        for n, (low, high), size, stride in entries
    )


@composites.call("equinox.nn:AdaptivePool.__call__", name="nn.avg_pool")
def adaptive_pool(self: eqx.nn.AdaptivePool, x: jax.Array, *, key: jax.Array | None = None) -> Replacement | None:
    """A pooling with one window where the target sizes divide the sizes; a reduction for the target size 1.

    Kept because the layer reduces reshaped images axis by axis, with seven operators.
    """
    import equinox as eqx

    target, space = tuple(self.target_shape), x.shape[1:]
    if len(target) != len(space) or self.operation not in (jnp.mean, jnp.max) or not of_one_float_type(x):
        return None
    if set(target) == {1}:
        return Replacement(self.operation(x, axis=tuple(range(1, x.ndim)), keepdims=True))
    if len(space) > 3 or not all(map(is_static, space)) or any(n % t for n, t in zip(space, target, strict=True)):
        return None
    name = "AvgPool" if self.operation is jnp.mean else "MaxPool"
    window = tuple(n // t for n, t in zip(space, target, strict=True))
    return Replacement(getattr(eqx.nn, f"{name}{len(space)}d")(window, window)(x))
