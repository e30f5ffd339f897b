"""A model of Flax Linen with the running statistics of batch norm."""

import flax.linen as nn
import jax
from jax2onnx_core import to_onnx


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(8, (3, 3))(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        return nn.Dense(10)(nn.avg_pool(x, (2, 2), strides=(2, 2)).reshape(x.shape[0], -1))


model = Net()
images = jax.random.normal(jax.random.key(1), (4, 8, 8, 1))
variables = model.init(jax.random.key(0), images, train=False)
_, updated = model.apply(variables, images, train=True, mutable=["batch_stats"])
variables = {**variables, **updated}

program = to_onnx(lambda x: model.apply(variables, x, train=False), [("batch", 8, 8, 1)])
print(program)
print("largest difference:", program.verify())
print("of batch 4:", abs(program(images) - model.apply(variables, images, train=False)).max() < 1e-5)
