"""A network in plain JAX: its parameters are a list of arrays."""

import jax
import jax.numpy as jnp
from jax2onnx_core import to_onnx

keys = jax.random.split(jax.random.key(0), 2)
layers = [(jax.random.normal(keys[0], (4, 32)), jnp.zeros(32)), (jax.random.normal(keys[1], (32, 3)), jnp.zeros(3))]


def predict(x):
    for weights, bias in layers[:-1]:
        x = jnp.tanh(x @ weights + bias)
    weights, bias = layers[-1]
    return jax.nn.log_softmax(x @ weights + bias)


program = to_onnx(predict, [("batch", 4)])
print(program)
print("largest difference:", program.verify())
