"""A recurrence over any number of steps, by `jax.lax.scan`."""

import jax
import jax.numpy as jnp
from jax2onnx_core import to_onnx

inner, outer = (jax.random.normal(key, (8, 8)) * 0.3 for key in jax.random.split(jax.random.key(1)))


def run(series):
    def step(state, x):
        gate = jax.nn.sigmoid(x @ outer)
        state = gate * state + (1 - gate) * jnp.tanh(state @ inner + x)
        return state, state.sum(-1)

    start = jnp.zeros((series.shape[1], 8))
    return jax.lax.scan(step, start, series)


program = to_onnx(run, [("time", "batch", 8)], output_names=["state", "sums"])
print(program)
print("largest difference:", program.verify())
