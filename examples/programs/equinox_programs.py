"""Programs with Equinox, whose models are pytrees that are applied to one example, under vmap."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from examples.programs import program


def key(number: int = 0) -> jax.Array:
    return jax.random.key(number)


@program(("B", 4))
def linear():
    return jax.vmap(eqx.nn.Linear(4, 3, key=key()))


@program(("B", 4))
def mlp():
    return jax.vmap(eqx.nn.MLP(4, 2, 8, 2, key=key()))


@program((4,))
def one_example():
    return eqx.nn.MLP(4, "scalar", 8, 1, activation=jnp.tanh, key=key())


@program(("B", 3, 8, 8))
def cnn():
    model = eqx.nn.Sequential([
        eqx.nn.Conv2d(3, 4, 3, key=key()), eqx.nn.MaxPool2d(2), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Lambda(jnp.ravel),
        eqx.nn.Linear(100, 5, key=key(1)), eqx.nn.Lambda(jax.nn.log_softmax),
    ])  # fmt: skip
    return jax.vmap(model)


@program(("B", 3, 8, 8))
def transposed_and_dilated_convolutions():
    model = eqx.nn.Sequential([
        eqx.nn.Conv2d(3, 4, 3, padding=1, dilation=1, groups=1, key=key()),
        eqx.nn.ConvTranspose2d(4, 2, 2, stride=2, key=key(1)),
    ])  # fmt: skip
    return jax.vmap(model)


@program(("B", 3, 8, 8))
def poolings():
    functions: list[Any] = [eqx.nn.AvgPool2d(2, 2), eqx.nn.AdaptiveAvgPool2d(4), eqx.nn.AdaptiveMaxPool2d(2)]
    return jax.vmap(lambda x: [f(x) for f in functions])


@program(("B", 8))
def layer_and_rms_norm():
    return jax.vmap(eqx.nn.Sequential([eqx.nn.LayerNorm(8), eqx.nn.RMSNorm(8)]))


@program(("B", 4, 6))
def group_norm():
    return jax.vmap(eqx.nn.GroupNorm(2, 4))


@program((("T",), np.int32))
def embedding():
    return jax.vmap(eqx.nn.Embedding(10, 4, key=key()))


@program(("T", 16))
def attention():
    model = eqx.nn.MultiheadAttention(2, 16, key=key())
    return lambda x: model(x, x, x)


@program(("T", 16))
def causal_attention():
    model = eqx.nn.MultiheadAttention(2, 16, key=key())
    return lambda x: model(x, x, x, mask=jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool)))


@program(("T", 2, 8))
def rotary_embedding():
    model = eqx.nn.RotaryPositionalEmbedding(8)
    return jax.vmap(model, 1, 1)


@program(("B", "T", 3))
def gru():
    cell, head = eqx.nn.GRUCell(3, 4, key=key()), eqx.nn.Linear(4, 2, key=key(1))

    def apply(xs: jax.Array) -> jax.Array:
        last, _ = lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros(4), xs)
        return head(last)

    return jax.vmap(apply)


@program(("B", "T", 3))
def lstm():
    cell = eqx.nn.LSTMCell(3, 4, key=key())

    def apply(xs: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            state = cell(x, state)
            return state, state[0]

        return lax.scan(step, (jnp.zeros(4), jnp.zeros(4)), xs)[1]

    return jax.vmap(apply)


@program(("B", 4))
def dropout_in_inference():
    model = eqx.nn.inference_mode(eqx.nn.Sequential([eqx.nn.Linear(4, 4, key=key()), eqx.nn.Dropout(0.5)]))
    return jax.vmap(model)


@program("key", ("B", 4))
def dropout_in_training():
    model = eqx.nn.Dropout(0.5)
    return lambda key, x: jax.vmap(lambda x, k: model(x, key=k))(x, jax.random.split(key, x.shape[0]))


@program(("B", 4))
def batch_norm_in_inference():
    model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, axis_name="batch", mode="batch")
    model = eqx.nn.inference_mode(model)
    return jax.vmap(lambda x: model(x, state)[0], axis_name="batch")


@program(("B", 4), ("B",))
def filtered_gradients():
    model = eqx.nn.MLP(4, "scalar", 8, 1, key=key())

    @eqx.filter_value_and_grad
    def loss(model: eqx.nn.MLP, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    return lambda x, y: jax.tree.leaves(eqx.filter(loss(model, x, y), eqx.is_array))


@program(("B", 4))
def ensemble_by_filtered_vmap():
    models = eqx.filter_vmap(lambda k: eqx.nn.Linear(4, 2, key=k))(jax.random.split(key(), 3))
    return lambda x: eqx.filter_vmap(lambda model: jax.vmap(model)(x))(models)


@program(("B", 4))
def parametric_relu_and_spectral_norm():
    return jax.vmap(eqx.nn.PReLU(0.2))


@program(("B", 2))
def user_defined_layer():
    class Quadratic(eqx.Module):
        matrix: jax.Array
        scale: float = eqx.field(static=True)

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.scale * x @ self.matrix @ x

    return jax.vmap(Quadratic(jnp.array([[1.0, 2.0], [3.0, 4.0]]), 0.5))


@program(("T", 16))
def pre_norm_block():
    norm, attention = eqx.nn.LayerNorm(16), eqx.nn.MultiheadAttention(4, 16, key=key())
    mlp = eqx.nn.MLP(16, 16, 32, 1, activation=jax.nn.gelu, key=key(1))

    def apply(x: jax.Array) -> jax.Array:
        y = jax.vmap(norm)(x)
        x = x + attention(y, y, y)
        return x + jax.vmap(mlp)(jax.vmap(norm)(x))

    return apply


@program((2,), rtol=1e-3)
def neural_ode_by_euler_steps():
    field = eqx.nn.MLP(2, 2, 8, 1, activation=jnp.tanh, key=key())
    return lambda y: lax.scan(lambda y, _: (y + 0.1 * field(y), y), y, None, length=8)
