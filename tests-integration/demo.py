"""Train a small convolutional network on handwritten digits, export it, compare the exported model with JAX."""

from __future__ import annotations

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax2onnx_core import to_onnx
from sklearn.datasets import load_digits

BATCH_SIZES = (1, 7, 64, 360)


class Digits(nnx.Module):
    """Two convolutions and two dense layers; images [batch, 8, 8, 1] → logits [batch, 10]."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.conv2 = nnx.Conv(16, 32, (3, 3), rngs=rngs)
        self.hidden = nnx.Linear(2 * 2 * 32, 64, rngs=rngs)
        self.out = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.norm(self.conv1(images))), (2, 2), (2, 2))
        x = nnx.max_pool(nnx.relu(self.conv2(x)), (2, 2), (2, 2))
        return self.out(nnx.relu(self.hidden(x.reshape(x.shape[0], -1))))


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels, then held-out ones: 1437 and 360 of the digits inside scikit-learn."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[360:], order[:360]
    return images[train], digits.target[train], images[test], digits.target[test]


@nnx.jit
def train_step(model: Digits, optimizer: nnx.Optimizer, images: jax.Array, labels: jax.Array) -> jax.Array:
    def loss_fn(model: Digits) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def train(model: Digits, images: np.ndarray, labels: np.ndarray, epochs: int = 8) -> None:
    optimizer = nnx.Optimizer(model, optax.adam(2e-3), wrt=nnx.Param)
    rng = np.random.default_rng(1)
    for _ in range(epochs):
        for batch in rng.permutation(len(images))[:1408].reshape(-1, 64):
            train_step(model, optimizer, jnp.asarray(images[batch]), jnp.asarray(labels[batch]))


def microseconds(fn, images: np.ndarray, repeats: int = 50) -> float:
    fn(images)
    start = time.perf_counter()
    for _ in range(repeats):
        np.asarray(fn(images))
    return (time.perf_counter() - start) / repeats * 1e6


def main() -> None:
    train_images, train_labels, images, labels = load()
    model = Digits(nnx.Rngs(0))
    start = time.perf_counter()
    train(model, train_images, train_labels)
    model.eval()
    print(f"trained in {time.perf_counter() - start:.1f} s")

    def classify(images: jax.Array) -> dict[str, jax.Array]:
        """images [batch, 8, 8, 1] → the most probable digit and all probabilities."""
        probabilities = nnx.softmax(model(images))
        return {"label": jnp.argmax(probabilities, axis=-1), "probabilities": probabilities}

    start = time.perf_counter()
    program = to_onnx(classify, [("batch", 8, 8, 1)])
    path = program.save("digits.onnx")
    print(f"exported in {time.perf_counter() - start:.2f} s to {path} ({Path(path).stat().st_size / 1024:.0f} KiB)\n")
    print(program.report(), end="\n\n")

    jitted = jax.jit(classify)
    largest = 0.0
    for size in BATCH_SIZES:
        for i in range(0, len(images), size):
            batch = images[i : i + size]
            expected, actual = jitted(batch), program(batch)
            np.testing.assert_array_equal(actual["label"], expected["label"])
            largest = max(largest, float(np.abs(actual["probabilities"] - expected["probabilities"]).max()))
    assert largest < 1e-5, largest
    accuracy = float((program(images)["label"] == labels).mean())
    print(f"{len(images)} held-out images at batch sizes {BATCH_SIZES}: labels equal JAX's")
    print(f"largest difference of a probability: {largest:.1e}; accuracy {accuracy:.1%}")
    for size in (1, 64):
        batch = images[:size]
        onnx_time = microseconds(lambda x: program(x)["label"], batch)
        jax_time = microseconds(lambda x: jitted(x)["label"], batch)
        print(f"batch {size}: ONNX Runtime {onnx_time:.0f} µs, jitted JAX {jax_time:.0f} µs")


if __name__ == "__main__":
    main()
