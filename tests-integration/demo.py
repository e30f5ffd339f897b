"""Train a small convolutional network on handwritten digits, export it, compare the exported model with JAX.

python tests-integration/demo.py [DIRECTORY]   writes digits.onnx and digits.html there, by default where it is started
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from sklearn.datasets import load_digits

BATCH_SIZES = (1, 7, 64, 360)
SHADES = " ░▒▓█"


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
def train_step(model: Digits, optimizer: nnx.Optimizer[Digits], images: jax.Array, labels: jax.Array) -> jax.Array:
    def loss_fn(model: Digits) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def train(
    model: Digits, images: np.ndarray, labels: np.ndarray, held_out: tuple[np.ndarray, np.ndarray], epochs: int = 8
) -> None:
    optimizer = nnx.Optimizer(model, optax.adam(2e-3), wrt=nnx.Param)
    rng = np.random.default_rng(1)
    for epoch in range(epochs):
        model.train()
        losses = [
            train_step(model, optimizer, jnp.asarray(images[batch]), jnp.asarray(labels[batch]))
            for batch in rng.permutation(len(images))[:1408].reshape(-1, 64)
        ]
        model.eval()
        right = float((jnp.argmax(nnx.jit(model)(jnp.asarray(held_out[0])), axis=-1) == held_out[1]).mean())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}, {right:.1%} of the held-out images right")


def drawn(images: np.ndarray, captions: list[str]) -> str:
    """Images side by side, each pixel two characters wide, with a caption below each."""
    width = 2 * images.shape[2] + 2
    shades = np.asarray(list(SHADES))[np.rint(images[..., 0] * (len(SHADES) - 1)).astype(int)]
    lines = ["  ".join("".join(np.repeat(row, 2)) for row in rows) for rows in shades.swapaxes(0, 1)]
    return "\n".join([*(line.rstrip() for line in lines), "".join(f"{text:{width}}" for text in captions).rstrip()])


def microseconds(fn, images: np.ndarray, repeats: int = 50) -> float:
    fn(images)
    start = time.perf_counter()
    for _ in range(repeats):
        np.asarray(fn(images))
    return (time.perf_counter() - start) / repeats * 1e6


def show(program: OnnxProgram, images: np.ndarray, labels: np.ndarray) -> None:
    """Draw some images with what the model says of them: five digits, and the image that it is least sure of."""
    found = program(images)
    sure = found["probabilities"].max(axis=-1)
    chosen = [*(int((labels == digit).argmax()) for digit in (0, 2, 3, 5, 7)), int(sure.argmin())]
    captions = [
        f"{found['label'][i]}, {sure[i]:.1%}" + ("" if found["label"][i] == labels[i] else f" (a {labels[i]})")
        for i in chosen
    ]
    print(drawn(images[chosen], captions), end="\n\n")


def compare(
    program: OnnxProgram, classify: Callable[[jax.Array], dict[str, jax.Array]], images: np.ndarray, labels: np.ndarray
) -> None:
    """The model and the jitted function, on all held-out images in batches of several sizes."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Train, export and compare a small network on handwritten digits.")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), help="where the files go")
    directory = parser.parse_args().directory
    train_images, train_labels, images, labels = load()
    model = Digits(nnx.Rngs(0))
    train(model, train_images, train_labels, (images, labels))

    def classify(images: jax.Array) -> dict[str, jax.Array]:
        """images [batch, 8, 8, 1] → the most probable digit and all probabilities."""
        probabilities = nnx.softmax(model(images))
        return {"label": jnp.argmax(probabilities, axis=-1), "probabilities": probabilities}

    start = time.perf_counter()
    program = to_onnx(classify, [("batch", 8, 8, 1)], provenance=True)
    path = program.save(directory / "digits.onnx")
    print(f"exported in {time.perf_counter() - start:.2f} s to {path} ({path.stat().st_size / 1024:.0f} KiB)\n")
    print(program, end="\n\n")
    show(program, images, labels)
    compare(program, classify, images, labels)
    program.verify(ranges={"images": (0.0, 1.0)})
    program.profile(images[:64])
    print(f"report: {program.save_report(directory / 'digits.html')}")


if __name__ == "__main__":
    main()
