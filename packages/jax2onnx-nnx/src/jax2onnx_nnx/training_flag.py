"""Layers whose `deterministic` or `use_running_average` is an input of the model, which selects when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
from jax2onnx_core import Composites, Replacement

if TYPE_CHECKING:
    from flax import nnx

__all__ = ["batch_norm_at_run_time", "composites"]

composites = Composites()

# Where a layer draws random numbers: streams, one stream, or one key.
Source = Any


@composites.call("flax.nnx:Dropout.__call__", name="nnx.dropout")
def dropout(
    self: nnx.Dropout, inputs: jax.Array, *, deterministic: bool | jax.Array | None = None, rngs: Source = None
) -> Replacement | None:
    """Kept because the layer asks in Python for its flag, which fails where that is an input of the model."""
    from flax import nnx

    flag = self.deterministic if deterministic is None else deterministic
    if not isinstance(flag, jax.core.Tracer) or self.rate == 0.0:
        return None
    key = _key(self.rngs if rngs is None else rngs, self.rng_collection)

    def masked() -> jax.Array:
        return nnx.Dropout.__call__(self, inputs, deterministic=False, rngs=key)

    return Replacement(jax.lax.cond(flag, lambda: inputs, masked))


@composites.call("flax.nnx:MultiHeadAttention.__call__", name="nnx.attention")
def attention(
    self: nnx.MultiHeadAttention, inputs_q: jax.Array, inputs_k: jax.Array | None = None,
    inputs_v: jax.Array | None = None, *, deterministic: bool | jax.Array | None = None, rngs: Source = None,
    sow_weights: bool = False, decode: bool | None = None, **options: Any,
) -> Replacement | None:  # fmt: skip
    """Kept because the layer asks in Python for its flag, which fails where that is an input of the model."""
    from flax import nnx

    flag = self.deterministic if deterministic is None else deterministic
    if not isinstance(flag, jax.core.Tracer) or sow_weights or (self.decode if decode is None else decode):
        return None

    def attend(*, deterministic: bool, rngs: Source = None) -> jax.Array:
        operands = self, inputs_q, inputs_k, inputs_v
        return nnx.MultiHeadAttention.__call__(
            *operands, deterministic=deterministic, rngs=rngs, decode=False, **options
        )

    if self.dropout_rate == 0.0:
        return Replacement(attend(deterministic=True))
    key = _key(self.rngs if rngs is None else rngs, "dropout")

    def with_dropout() -> jax.Array:
        return attend(deterministic=False, rngs=lambda: key)

    return Replacement(jax.lax.cond(flag, lambda: attend(deterministic=True), with_dropout))


def batch_norm_at_run_time(layer: nnx.BatchNorm, x: jax.Array, flag: jax.Array, mask: jax.Array | None) -> jax.Array:
    """A batch norm whose mode is an input of the model.

    The layer has the new statistics afterwards, as after a call in training mode.

    Args:
      layer: the layer.
      x: its input, [..., C, ...].
      flag: a bool scalar: whether the running statistics are used rather than those of `x`.
      mask: a mask of the elements that count for the statistics, as the layer takes it, or None.

    Returns:
      An array of the shape of `x`.
    """
    from flax import nnx

    def normalised(*, use_running_average: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
        copy = nnx.clone(layer)
        y = nnx.BatchNorm.__call__(copy, x, use_running_average=use_running_average, mask=mask)
        return y, copy.mean[...], copy.var[...]

    y, mean, variance = jax.lax.cond(
        flag, lambda: normalised(use_running_average=True), lambda: normalised(use_running_average=False)
    )
    layer.mean[...], layer.var[...] = mean, variance
    return y


def _key(source: Source, collection: str) -> jax.Array | None:
    """The key that the layer would draw; drawn here, because a branch must not change the state of a stream."""
    from flax import nnx

    stream: Callable[[], jax.Array] | None = source[collection] if isinstance(source, nnx.Rngs) else source
    return stream if stream is None or isinstance(stream, jax.Array) else stream()
