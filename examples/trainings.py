"""Trainings of ordinary models, each with batches of an example: for the table of docs/guide/training.md, and for tests."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx

from examples.models import Block, ConvNorm, Gpt, ViT

__all__ = ["TRAININGS", "Convolutional", "Task"]

Batch = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Task:
    """A model, and what it learns.

    Attributes:
      model: makes the model, the same one in each call.
      batch: the inputs of a step, as `to_training` takes them.
      examples: a batch for each random generator.
      optimizer: the transformation of optax.
      trained: the filter of the parameters; None for all.
      size: how many examples the batches of the table have.
    """

    model: Callable[[], nnx.Module]
    batch: Sequence[Any]
    examples: Callable[[np.random.Generator, int], Batch]
    optimizer: optax.GradientTransformation
    trained: Any = None
    size: int = 32

    def batches(self, count: int, size: int | None = None) -> Iterator[Batch]:
        """So many batches, the same ones in each call."""
        rng = np.random.default_rng(0)
        return (self.examples(rng, size or self.size) for _ in range(count))

    def loss(self, model: Any, inputs: jax.Array, labels: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The cross entropy, and the part that is right."""
        logits = model(inputs)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return loss, {"accuracy": (logits.argmax(-1) == labels).mean()}


# -- models ----------------------------------------------------------------------------------------


def perceptron() -> nnx.Module:
    rngs = nnx.Rngs(0)
    return nnx.Sequential(
        nnx.Linear(64, 256, rngs=rngs), nnx.relu, nnx.Linear(256, 256, rngs=rngs), nnx.relu, nnx.Linear(256, 10, rngs=rngs)
    )  # fmt: skip


class Convolutional(nnx.Module):
    """[B, 16, 16, 1] → [B, 10]: two convolutions with batch norm and max pooling, dropout, a head."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.second = ConvNorm(1, 16, 3, rngs=rngs), ConvNorm(16, 32, 3, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.head = nnx.Linear(4 * 4 * 32, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in (self.first, self.second):
            x = nnx.max_pool(nnx.relu(layer(x)), (2, 2), (2, 2))
        return self.head(self.dropout(x.reshape(x.shape[0], -1)))


class Recurrent(nnx.Module):
    """[B, T, 16] → [B, 10]: an LSTM over time, and a head on its last output."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.cell = nnx.RNN(nnx.OptimizedLSTMCell(16, 64, rngs=rngs))
        self.head = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.head(self.cell(x)[:, -1])


def with_adapters(model: nnx.Module) -> nnx.Module:
    """The model with LoRA of rank 4 beside each linear layer of its feed-forward parts."""
    rngs = nnx.Rngs(1)
    for _, block in nnx.iter_modules(model):
        if isinstance(block, Block):
            for name in ("up", "down"):
                base = getattr(block.mlp, name)
                rank = nnx.LoRA(base.in_features, 4, base.out_features, base_module=base, rngs=rngs)
                setattr(block.mlp, name, rank)
    return model


def gpt() -> Gpt:
    return Gpt(vocabulary=64, context=32, width=64, depth=2, heads=4, rngs=nnx.Rngs(0))


# -- examples --------------------------------------------------------------------------------------


@functools.cache
def prototypes(*shape: int) -> np.ndarray:
    """Ten arrays, one for each class."""
    return np.random.default_rng(1).normal(size=(10, *shape)).astype(np.float32)


def noisy(*shape: int) -> Callable[[np.random.Generator, int], Batch]:
    """Batches of noisy prototypes and their classes."""

    def examples(rng: np.random.Generator, size: int) -> Batch:
        labels = rng.integers(0, 10, size).astype(np.int32)
        noise = rng.normal(scale=3.0, size=(size, *shape)).astype(np.float32)
        return prototypes(*shape)[labels] + noise, labels

    return examples


def sequences(rng: np.random.Generator, size: int) -> Batch:
    """Tokens and the next ones: each is three more than the one before it, modulo 64, or now and then a random one."""
    tokens = rng.integers(0, 64, (size, 33))
    kept = rng.random((size, 33)) < 0.9
    for place in range(1, 33):
        tokens[:, place] = np.where(kept[:, place], (tokens[:, place - 1] + 3) % 64, tokens[:, place])
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


LABELS = (("batch",), "int32")
TOKENS = [(("batch", 32), "int32"), (("batch", 32), "int32")]

#: Name → training.
TRAININGS = {
    "perceptron": Task(perceptron, [("batch", 64), LABELS], noisy(64), optax.adam(1e-3), size=64),
    "CNN": Task(lambda: Convolutional(nnx.Rngs(0)), [("batch", 16, 16, 1), LABELS], noisy(16, 16, 1), optax.adam(1e-3)),
    "ViT": Task(
        lambda: ViT(width=64, depth=3, heads=4, rngs=nnx.Rngs(0)), [("batch", 32, 32, 3), LABELS], noisy(32, 32, 3),
        optax.adamw(1e-3), size=16,
    ),
    "LSTM": Task(
        lambda: Recurrent(nnx.Rngs(0)), [("batch", 24, 16), LABELS], noisy(24, 16),
        optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3)),
    ),
    "GPT": Task(gpt, TOKENS, sequences, optax.adamw(1e-3), size=16),
    "GPT with LoRA": Task(lambda: with_adapters(gpt()), TOKENS, sequences, optax.adam(1e-2), nnx.LoRAParam, size=16),
}  # fmt: skip
