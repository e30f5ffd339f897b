"""A loop that ends when it has converged: a square root by Newton's method."""

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import to_onnx


def root(number):
    def unfinished(state):
        guess, count = state
        return (jnp.abs(guess * guess - number) > 1e-4 * number) & (count < 50)

    def improve(state):
        guess, count = state
        return (guess + number / guess) / 2, count + 1

    return jax.lax.while_loop(unfinished, improve, (jnp.maximum(number, 1.0), 0))


program = to_onnx(root, [()], output_names=["root", "steps"])
print(program)
print("of 2:", program(np.float32(2)), "of 1000:", program(np.float32(1000)))
program.verify(ranges={"number": (0.1, 100.0)})
