"""A block of a transformer with a mask of the padding."""

import jax
from flax import nnx
from jax2onnx_core import to_onnx


class Block(nnx.Module):
    def __init__(self, width, heads, rngs):
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x, present):
        before, between = self.norms
        x = x + self.attention(before(x), mask=present[:, None, None, :])
        return x + self.down(nnx.gelu(self.up(between(x))))


block = Block(32, 4, nnx.Rngs(0))
program = to_onnx(block, [("batch", "time", 32), (("batch", "time"), "bool")], opset=23)
print(program)
print("largest difference:", program.verify())
print("as a function of JAX, too:", jax.jit(block)(jax.numpy.ones((1, 2, 32)), jax.numpy.ones((1, 2), bool)).shape)
