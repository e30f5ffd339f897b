"""Programs with Haiku, whose functions are transformed into a pair of `init` and `apply`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from examples.programs import program


def applied(function: Callable[..., Any], *inputs: Any) -> Callable[..., Any]:
    """The function with parameters of its initialisation, without random numbers."""
    transformed: Any = hk.without_apply_rng(hk.transform(function))
    parameters = transformed.init(jax.random.PRNGKey(0), *inputs)
    return lambda *arguments: transformed.apply(parameters, *arguments)


X4, X16, IMAGE = np.ones((1, 4), np.float32), np.ones((1, 5, 16), np.float32), np.ones((1, 8, 8, 3), np.float32)


@program(("B", 4))
def linear():
    return applied(lambda x: hk.Linear(3)(x), X4)


@program(("B", 4))
def mlp():
    return applied(lambda x: hk.nets.MLP([8, 3])(x), X4)


@program(("B", 8, 8, 3))
def cnn():
    def network(x: jax.Array) -> jax.Array:
        model = hk.Sequential([hk.Conv2D(4, 3, 2), jax.nn.relu, hk.MaxPool(2, 2, "VALID"), hk.Flatten(), hk.Linear(5)])
        return model(x)

    return applied(network, IMAGE)


@program(("B", 8, 8, 3))
def depthwise_and_transposed_convolutions():
    return applied(lambda x: hk.Conv2DTranspose(4, 2, 2)(hk.DepthwiseConv2D(1, 3)(x)), IMAGE)


@program(("B", "T", 16))
def layer_norm():
    return applied(lambda x: hk.LayerNorm(-1, create_scale=True, create_offset=True)(x), X16)


@program(("B", "T", 16))
def rms_norm():
    return applied(lambda x: hk.RMSNorm(-1)(x), X16)


@program(("B", 8, 8, 4))
def group_and_instance_norm():
    image = np.ones((1, 8, 8, 4), np.float32)
    return applied(lambda x: hk.InstanceNorm(True, True)(hk.GroupNorm(2)(x)), image)


@program(("B", 4))
def batch_norm_with_state():
    transformed: Any = hk.without_apply_rng(hk.transform_with_state(lambda x, t: hk.BatchNorm(True, True, 0.9)(x, t)))
    parameters, state = transformed.init(jax.random.PRNGKey(0), X4, True)
    return lambda x: transformed.apply(parameters, state, x, True)


@program(("B", "T", 16))
def attention():
    return applied(lambda x: hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling(1.0))(x, x, x), X16)


@program((("B", "T"), np.int32))
def embedding():
    return applied(lambda tokens: hk.Embed(10, 6)(tokens), np.ones((1, 5), np.int32))


@program(("T", "B", 3))
def lstm_unrolled():
    def network(xs: jax.Array) -> jax.Array:
        core = hk.LSTM(4)
        return hk.dynamic_unroll(core, xs, core.initial_state(xs.shape[1]))[0]

    return applied(network, np.ones((5, 1, 3), np.float32))


@program(("T", "B", 3))
def gru_unrolled():
    def network(xs: jax.Array) -> jax.Array:
        core = hk.GRU(4)
        return hk.dynamic_unroll(core, xs, core.initial_state(xs.shape[1]))[0]

    return applied(network, np.ones((5, 1, 3), np.float32))


@program(("T", "B", 3))
def vanilla_recurrence():
    def network(xs: jax.Array) -> jax.Array:
        core = hk.VanillaRNN(4)
        return hk.dynamic_unroll(core, xs, core.initial_state(xs.shape[1]))[1]

    return applied(network, np.ones((5, 1, 3), np.float32))


@program("key", ("B", 4))
def dropout():
    transformed: Any = hk.transform(lambda x: hk.dropout(hk.next_rng_key(), 0.4, x))
    return lambda key, x: transformed.apply({}, jax.random.key_data(key), x)


@program(("B", 4), ("B", 3))
def gradients():
    transformed: Any = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, 3], activation=jnp.tanh)(x)))
    parameters = transformed.init(jax.random.PRNGKey(0), X4)

    def loss(parameters: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((transformed.apply(parameters, x) - y) ** 2)

    return lambda x, y: jax.grad(loss)(parameters, x, y)


@program(("B", 4))
def layers_stacked_by_a_scan():
    return applied(lambda x: hk.experimental.layer_stack(3)(lambda x: jax.nn.relu(hk.Linear(4)(x)))(x), X4)


@program(("B", 4))
def bias_scale_and_parameters():
    def network(x: jax.Array) -> jax.Array:
        weights = hk.get_parameter("w", (4, 4), init=hk.initializers.RandomNormal())
        return hk.Bias()(x @ weights)

    return applied(network, X4)


@program(("B", 8, 8, 3))
def resnet_block():
    def network(x: jax.Array) -> jax.Array:
        y = jax.nn.relu(hk.Conv2D(4, 3)(x))
        return jax.nn.relu(hk.Conv2D(4, 1)(x) + hk.Conv2D(4, 3)(y)).mean((1, 2))

    return applied(network, IMAGE)
