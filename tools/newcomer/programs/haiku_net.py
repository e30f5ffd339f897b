"""A network of Haiku with its parameters."""

import haiku as hk
import jax
import jax.numpy as jnp
from jax2onnx_core import to_onnx


def forward(x):
    x = jax.nn.gelu(hk.Linear(64)(x))
    x = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)
    return hk.nets.MLP([32, 5])(x)


net = hk.transform(forward)
params = net.init(jax.random.key(0), jnp.ones((1, 12)))
program = to_onnx((net, params), [("batch", 12)])
print(program)
print("largest difference:", program.verify())
