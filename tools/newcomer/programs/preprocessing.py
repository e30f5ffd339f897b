"""Images of any size in bytes become what a network expects: resized, cropped, normalised."""

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import to_onnx

mean, deviation = jnp.array([0.485, 0.456, 0.406]), jnp.array([0.229, 0.224, 0.225])


def prepare(images):
    x = images.astype(jnp.float32) / 255
    x = jax.image.resize(x, (x.shape[0], 64, 64, 3), "bilinear")
    return (x[:, 4:60, 4:60] - mean) / deviation


program = to_onnx(prepare, [(("batch", "height", "width", 3), "uint8")])
print(program)
print("largest difference:", program.verify())
photograph = np.random.default_rng(0).integers(0, 256, (1, 100, 150, 3), np.uint8)
print("from", photograph.shape, "to", program(photograph).shape)
