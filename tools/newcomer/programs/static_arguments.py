"""A function with static arguments: a mode, a size, a function."""

import functools

import jax
import jax.numpy as jnp
from jax2onnx_core import to_onnx


@functools.partial(jax.jit, static_argnames=("mode", "width", "activation"))
def smooth(x, mode, width, activation=jnp.tanh):
    kernel = jnp.ones(width) / width if mode == "mean" else jnp.hanning(width + 2)[1:-1]
    return activation(jax.vmap(lambda row: jnp.convolve(row, kernel, mode="same"))(x))


program = to_onnx(functools.partial(smooth, mode="mean", width=5, activation=jax.nn.relu), [("rows", 64)])
print(program)
print("largest difference:", program.verify())
