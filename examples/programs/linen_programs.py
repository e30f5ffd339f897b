"""Programs with Flax Linen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from examples.programs import program

TOKENS = (("B", "T"), np.int32)


def applied(model: nn.Module, *inputs: Any, **options: Any) -> Callable[..., Any]:
    """The model with variables of its initialisation."""
    return functools.partial(model.apply, model.init(jax.random.key(0), *inputs), **options)


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(3)(nn.relu(nn.Dense(8)(x)))


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.avg_pool(nn.relu(nn.Conv(4, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.avg_pool(nn.relu(nn.Conv(8, (3, 3))(x)), (2, 2), (2, 2))
        return nn.log_softmax(nn.Dense(5)(nn.relu(nn.Dense(16)(x.reshape(x.shape[0], -1)))))


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + nn.SelfAttention(2)(nn.LayerNorm()(x))
        return x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))


class Stack(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        def body(layer: nn.Module, x: jax.Array) -> tuple[jax.Array, None]:
            return nn.relu(layer(x)), None

        layers = nn.scan(body, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return layers(nn.Dense(4), x)[0]


X4, X16, IMAGE = np.ones((1, 4), np.float32), np.ones((1, 5, 16), np.float32), np.ones((1, 8, 8, 3), np.float32)


@program(("B", 4))
def dense():
    return applied(nn.Dense(3), X4)


@program(("B", 4))
def mlp():
    return applied(Mlp(), X4)


@program(("B", 8, 8, 3))
def cnn():
    return applied(Cnn(), IMAGE)


@program(("B", "T", 16))
def encoder_block():
    return applied(Encoder(), X16)


@program(("B", 4))
def scanned_layers():
    return applied(Stack(), X4)


@program(("B", 4))
def rematerialised_mlp():
    return applied(nn.remat(Mlp)(), X4)


@program(("B", "T", 16))
def dense_of_two_axes():
    return applied(nn.DenseGeneral((2, 4)), X16)


@program(("B", 8, 8, 3))
def separable_convolution():
    model = nn.Sequential([nn.Conv(3, (3, 3), feature_group_count=3), nn.Conv(6, (1, 1))])
    return applied(model, IMAGE)


@program(("B", 8, 8, 3))
def transposed_convolution():
    return applied(nn.ConvTranspose(4, (2, 2), strides=(2, 2)), IMAGE)


@program(("B", 8, 8, 3))
def batch_norm():
    return applied(nn.BatchNorm(use_running_average=True), IMAGE)


@program(("B", 8, 8, 3))
def batch_norm_that_updates_its_statistics():
    model = nn.BatchNorm(use_running_average=False, momentum=0.9)
    return applied(model, IMAGE, mutable=["batch_stats"])


@program(("B", "T", 16))
def norms():
    model = nn.Sequential([nn.LayerNorm(), nn.RMSNorm(), nn.GroupNorm(4)])
    return applied(model, X16)


@program(("B", 4))
def spectral_and_weight_norm():
    return applied(nn.WeightNorm(nn.Dense(3)), X4)


@program(TOKENS)
def embedding_and_head():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, tokens: jax.Array) -> jax.Array:
            embed = nn.Embed(10, 8)
            return embed.attend(jnp.tanh(embed(tokens)))

    return applied(Model(), np.ones((1, 5), np.int32))


@program(("B", "T", 16), ("B", "N", 16))
def cross_attention():
    return applied(nn.MultiHeadDotProductAttention(4), X16, X16)


@program(TOKENS)
def causal_language_model():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, tokens: jax.Array) -> jax.Array:
            x = nn.Embed(10, 16)(tokens) + nn.Embed(16, 16)(jnp.arange(tokens.shape[1]))
            x = x + nn.SelfAttention(2)(nn.LayerNorm()(x), nn.make_causal_mask(tokens))
            return nn.Dense(10)(nn.LayerNorm()(x))

    return applied(Model(), np.ones((1, 5), np.int32))


@program(TOKENS)
def padded_attention():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, tokens: jax.Array) -> jax.Array:
            mask = nn.make_attention_mask(tokens > 0, tokens > 0)
            return nn.MultiHeadDotProductAttention(2)(nn.Embed(10, 16)(tokens), mask=mask)

    return applied(Model(), np.ones((1, 5), np.int32))


@program(("B", "T", 3))
def lstm():
    return applied(nn.RNN(nn.LSTMCell(4)), np.ones((1, 5, 3), np.float32))


@program(("B", "T", 3))
def gru_backwards():
    return applied(nn.RNN(nn.GRUCell(4), reverse=True), np.ones((1, 5, 3), np.float32))


@program(("B", "T", 3))
def minimal_gated_unit():
    return applied(nn.RNN(nn.MGUCell(4)), np.ones((1, 5, 3), np.float32))


@program(("B", "T", 3))
def bidirectional_lstm():
    model = nn.Bidirectional(nn.RNN(nn.LSTMCell(4)), nn.RNN(nn.LSTMCell(4)))
    return applied(model, np.ones((1, 5, 3), np.float32))


@program(("B", "T", 6, 6, 2))
def convolutional_lstm():
    return applied(nn.RNN(nn.ConvLSTMCell(3, (3, 3))), np.ones((1, 3, 6, 6, 2), np.float32))


@program("key", ("B", 4))
def dropout_in_training():
    model = nn.Dropout(0.3, deterministic=False)
    return lambda key, x: model.apply({}, x, rngs={"dropout": key})


@program(("B", 4), ("B", 3))
def gradients_of_a_model():
    model = Mlp()
    variables = model.init(jax.random.key(0), X4)

    def loss(variables: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((model.apply(variables, x) - y) ** 2)

    return lambda x, y: jax.value_and_grad(loss)(variables, x, y)


@program(("B", 4))
def ensemble_by_vmap():
    ensemble = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, axis_size=3)
    return applied(ensemble(2), X4)


@program(("B", 4))
def parametric_relu_and_maxout():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            return jnp.max(nn.PReLU()(nn.Dense(6)(x)).reshape(x.shape[0], 2, 3), -1)

    return applied(Model(), X4)


@program(("B", 4), rtol=2e-2)
def low_precision_mlp():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            return nn.Dense(3, dtype=jnp.bfloat16, param_dtype=jnp.float32)(x).astype(jnp.float32)

    return applied(Model(), X4)


@program(("B", 8, 8, 3))
def mixer():
    class Mixer(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            x = nn.Conv(8, (4, 4), strides=(4, 4))(x)
            x = x.reshape(x.shape[0], -1, 8)
            y = nn.LayerNorm()(x).swapaxes(1, 2)
            x = x + nn.Dense(4)(nn.gelu(nn.Dense(6)(y))).swapaxes(1, 2)
            return nn.Dense(5)((x + nn.Dense(8)(nn.gelu(nn.Dense(12)(nn.LayerNorm()(x))))).mean(1))

    return applied(Mixer(), IMAGE)
