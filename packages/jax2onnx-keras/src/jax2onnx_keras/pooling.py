"""Poolings, of layers and of `keras.ops`, as "nn.max_pool" and "nn.avg_pool"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_core.jaxprs import is_static
from jax2onnx_lax.nn.bindings import per_axis

from jax2onnx_keras._layer import as_channels_last, from_channels_last, of_one_type

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()

Sizes = int | Sequence[int]


@composites.call("keras.src.backend.jax.nn:max_pool", name="nn.max_pool")
def max_pool(
    inputs: jax.Array,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Call | Replacement | None:
    """Kept because the primitives guard a maximum against NaN, with an If and a dozen operators."""
    from keras import ops

    return _pooling(ops.max_pool, inputs, pool_size, strides, padding, data_format)


@composites.call("keras.src.backend.jax.nn:average_pool", name="nn.avg_pool")
def average_pool(
    inputs: jax.Array,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Call | Replacement | None:
    """Kept because the primitives divide a sum by the number of elements, which is computed where sizes are symbolic."""
    from keras import ops

    return _pooling(ops.average_pool, inputs, pool_size, strides, padding, data_format, count_include_pad=False)


@composites.call(
    "keras.layers:GlobalMaxPooling1D.call",
    "keras.layers:GlobalMaxPooling2D.call",
    "keras.layers:GlobalMaxPooling3D.call",
    name="nn.max_pool",
)
def global_max_pool(self: keras.layers.GlobalMaxPooling2D, inputs: jax.Array) -> Replacement | None:
    """A pooling with one window as large as the space, where its size is known.

    Kept because ReduceMax may lose a NaN, and is guarded against it by three operators.
    """
    from keras import ops

    x = as_channels_last(inputs, self.data_format)
    space = x.shape[1:-1]
    if not of_one_type(x) or not all(is_static(d) and d > 0 for d in space):
        return None
    y = from_channels_last(ops.max_pool(x, space, 1, data_format="channels_last"), self.data_format)
    axes = tuple(range(1, x.ndim - 1)) if self.data_format == "channels_last" else tuple(range(2, x.ndim))
    return Replacement(y if self.keepdims else y.squeeze(axes))


def _pooling(
    function: Callable[..., Any],
    inputs: jax.Array,
    pool_size: Sizes,
    strides: Sizes | None,
    padding: str,
    data_format: str | None,
    **options: bool,
) -> Call | Replacement | None:
    import keras

    data_format = data_format or keras.config.image_data_format()
    if not of_one_type(inputs):
        return None
    if data_format == "channels_first":
        x = as_channels_last(inputs, data_format)
        return Replacement(
            from_channels_last(function(x, pool_size, strides, padding, data_format="channels_last"), data_format)
        )
    rank = inputs.ndim - 2
    window = per_axis(pool_size, rank)
    steps = window if strides is None else per_axis(strides, rank)
    return Call(inputs, window=window, strides=steps, padding=padding.upper(), **options)
