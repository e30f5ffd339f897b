"""A step of training as a model: the loss, and Adam's new parameters and state."""

import jax
import jax.numpy as jnp
import optax
from jax2onnx_core import to_onnx

optimiser = optax.adam(1e-2)
params = {"weights": jax.random.normal(jax.random.key(0), (4, 1)), "bias": jnp.zeros(1)}


def step(params, state, x, y):
    def loss(p):
        return jnp.mean((x @ p["weights"] + p["bias"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimiser.update(grads, state)
    return optax.apply_updates(params, updates), state, value


state = optimiser.init(params)
program = to_onnx(step, [params, state, ("batch", 4), ("batch", 1)], states={0: 0, 1: 1})
print(program)
session = program.session(initial={0: params, 1: state})
x = jax.random.normal(jax.random.key(1), (32, 4))
losses = [float(session.step(x, x[:, :1] * 2 + 1)) for _ in range(200)]
print("the loss falls from", round(losses[0], 3), "to", round(losses[-1], 3))
