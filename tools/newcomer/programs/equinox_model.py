"""A model of Equinox, for a batch by `jax.vmap`."""

import equinox as eqx
import jax
from jax2onnx_core import to_onnx


class Model(eqx.Module):
    embed: eqx.nn.Embedding
    cell: eqx.nn.GRUCell
    head: eqx.nn.MLP

    def __init__(self, key):
        first, second, third = jax.random.split(key, 3)
        self.embed = eqx.nn.Embedding(50, 16, key=first)
        self.cell = eqx.nn.GRUCell(16, 32, key=second)
        self.head = eqx.nn.MLP(32, 2, 64, 1, key=third)

    def __call__(self, tokens):
        def step(state, x):
            return self.cell(x, state), None

        state, _ = jax.lax.scan(step, jax.numpy.zeros(32), jax.vmap(self.embed)(tokens))
        return self.head(state)


model = Model(jax.random.key(0))
program = to_onnx(jax.vmap(model), [(("batch", "time"), "int32")])
print(program)
print("largest difference:", program.verify(ranges={"tokens": (0, 49)}))
