"""Random numbers in the model: the key is an input, the same key gives the tokens that JAX gives."""

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import to_onnx


def sample(key, logits, temperature):
    scaled = logits / jnp.maximum(temperature, 1e-3)
    return jax.random.categorical(key, scaled)


program = to_onnx(sample, [jax.random.key(0), ("batch", 100), ()])
print(program)
logits = np.random.default_rng(0).normal(size=(4, 100)).astype(np.float32)
key = jax.random.key(7)
print("model:", program(key, logits, np.float32(1)), "JAX:", sample(key, logits, 1.0))
