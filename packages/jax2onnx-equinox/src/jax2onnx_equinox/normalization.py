"""The normalisations of `eqx.nn` as "nn.layer_norm", "nn.rms_norm", "nn.group_norm" and "nn.batch_norm"."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_lax.dtypes import of_one_float_type

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["composites", "normalised"]

composites = Composites()

#: Stands for a `state` that was not given; None is one.
_NOT_GIVEN: Any = object()


@composites.call("equinox.nn:LayerNorm.__call__", name="nn.layer_norm", keep_under_vmap=(0,))
def layer_norm(
    self: eqx.nn.LayerNorm, x: jax.Array, state: eqx.nn.State = _NOT_GIVEN, *, key: jax.Array | None = None
) -> Call | Replacement | None:
    """Kept because the statistics of vectors under vmap would be eleven operators more than LayerNormalization."""
    import equinox as eqx

    return _over_all_axes(self, x, state, eqx.nn.LayerNorm.__call__)


@composites.call("equinox.nn:RMSNorm.__call__", name="nn.rms_norm", keep_under_vmap=(0,))
def rms_norm(
    self: eqx.nn.RMSNorm, x: jax.Array, state: eqx.nn.State = _NOT_GIVEN, *, key: jax.Array | None = None
) -> Call | Replacement | None:
    """Kept because a norm without weights would be six operators more than RMSNormalization."""
    import equinox as eqx

    return _over_all_axes(self, x, state, eqx.nn.RMSNorm.__call__)


@composites.call("equinox.nn:GroupNorm.__call__", name="nn.group_norm", keep_under_vmap=(0,))
def group_norm(
    self: eqx.nn.GroupNorm, x: jax.Array, state: eqx.nn.State = _NOT_GIVEN, *, key: jax.Array | None = None
) -> Call | Replacement | None:
    """Kept because the statistics of the groups would be computed by 9 operators more than InstanceNormalization
    needs.
    """
    import equinox as eqx

    if state is not _NOT_GIVEN:
        return Replacement((eqx.nn.GroupNorm.__call__(self, x), state))
    weight, bias = (self.weight, self.bias) if self.channelwise_affine else (None, None)
    if not of_one_float_type(x, weight, bias) or x.shape[0] % self.groups:
        return None
    return Call(x, weight, bias, groups=self.groups, epsilon=float(self.eps), space=x.ndim - 1)


def _over_all_axes(
    layer: eqx.nn.LayerNorm | eqx.nn.RMSNorm, x: jax.Array, state: eqx.nn.State, method: Callable[..., jax.Array]
) -> Call | Replacement | None:
    if state is not _NOT_GIVEN:
        return Replacement((method(layer, x), state))
    weight, bias = layer.weight if layer.use_weight else None, layer.bias if layer.use_bias else None
    if x.shape != layer.shape or x.ndim == 0 or not of_one_float_type(x, weight, bias):
        return None
    return Call(x, weight, bias, axes=x.ndim, epsilon=float(layer.eps))


@composites.call("equinox.nn:BatchNorm.__call__", name="nn.batch_norm")
def batch_norm(
    self: eqx.nn.BatchNorm, x: jax.Array, state: eqx.nn.State, *, key: jax.Array | None = None,
    inference: bool | None = None,
) -> Replacement | None:  # fmt: skip
    """Kept because the layer would subtract the mean and divide by two operators of their own, and fails on a flag
    that is an input of the model.
    """
    inference = self.inference if inference is None else inference
    if isinstance(inference, jax.Array):
        return Replacement(_at_run_time(self, x, state, inference))
    if not inference:
        return None
    mean, variance = _statistics(self, state)
    return Replacement((normalised(x, mean, variance, self.weight, self.bias, float(self.eps)), state))


def _at_run_time(
    layer: eqx.nn.BatchNorm, x: jax.Array, state: eqx.nn.State, inference: jax.Array
) -> tuple[jax.Array, eqx.nn.State]:
    """The layer at inference or in training, by a flag that is known at run time only."""
    import equinox as eqx

    leaves, tree = jax.tree_util.tree_flatten(state)

    def run(inference: bool) -> tuple[jax.Array, eqx.nn.State]:
        # A state that training has updated is invalid.
        return eqx.nn.BatchNorm.__call__(layer, x, jax.tree_util.tree_unflatten(tree, leaves), inference=inference)

    return jax.lax.cond(inference, lambda: run(True), lambda: run(False))


def _statistics(layer: eqx.nn.BatchNorm, state: eqx.nn.State) -> tuple[jax.Array, jax.Array]:
    """The running mean and variance; in mode "batch" without the part of their initial values in them."""
    if layer.ema_state_index is not None:
        return state.get(layer.ema_state_index)
    assert layer.batch_counter is not None
    assert layer.batch_state_index is not None
    counter, (mean, variance) = state.get(layer.batch_counter), state.get(layer.batch_state_index)
    scale = jnp.where(counter == 0, 1, 1 - layer.momentum**counter)
    return mean / scale, variance / scale


def normalised(
    x: jax.Array, mean: jax.Array, variance: jax.Array, weight: jax.Array | None, bias: jax.Array | None, epsilon: float
) -> jax.Array:
    """`eqx.nn.BatchNorm` with given statistics.

    Args:
      x: the input, [C, ...].
      mean: [C].
      variance: [C].
      weight: the scale, [C], or None.
      bias: [C], or None where `weight` is.
      epsilon: a number that is added to the variance.

    Returns:
      An array of the shape of `x`.
    """

    def of_channel(
        x: jax.Array, mean: jax.Array, variance: jax.Array, weight: jax.Array | None, bias: jax.Array | None
    ) -> jax.Array:
        y = (x - mean) / jnp.sqrt(variance + epsilon)
        return y if weight is None else y * weight + bias

    return jax.vmap(of_channel)(x, mean, variance, weight, bias)


@composites.call("jax2onnx_equinox.normalization:normalised", name="nn.batch_norm", keep_under_vmap=(0,))
def normalised_call(
    x: jax.Array, mean: jax.Array, variance: jax.Array, weight: jax.Array | None, bias: jax.Array | None, epsilon: float
) -> Call | None:
    """Kept as the part of the layer that is one operation."""
    if not of_one_float_type(x, mean, variance, weight, bias):
        return None
    return Call(x, mean, variance, weight, bias, axis=-x.ndim, epsilon=epsilon)
