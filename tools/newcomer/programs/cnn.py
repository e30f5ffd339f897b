"""A convolutional network of Flax NNX, for images with the channels first."""

from flax import nnx
from jax2onnx_core import to_onnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.second = nnx.Conv(8, 16, (3, 3), strides=2, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.out = nnx.Linear(16, 10, rngs=rngs)

    def __call__(self, images):
        x = nnx.max_pool(nnx.relu(self.first(images)), (2, 2), strides=(2, 2))
        x = nnx.relu(self.norm(self.second(x)))
        return self.out(self.dropout(x.mean((1, 2))))


model = Net(nnx.Rngs(0))
model.eval()
program = to_onnx(model, [("batch", 32, 32, 3)], input_layouts={"images": "NCHW"})
print(program)
print("largest difference:", program.verify())
