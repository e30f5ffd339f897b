"""Training steps as programs: loss, gradient and optimizer over one set of weights, run where models run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_training.epochs import Epoch, train
    from jax2onnx_training.errors import LossError
    from jax2onnx_training.export import to_training
    from jax2onnx_training.session import TrainingSession, open_training
    from jax2onnx_training.training import Training

__all__ = ["Epoch", "LossError", "Training", "TrainingSession", "open_training", "to_training", "train"]

__version__ = "0.1.0"

# Where a training only runs, nothing of JAX is there: every name comes at its first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_training.epochs": ("Epoch", "train"),
        "jax2onnx_training.errors": ("LossError",),
        "jax2onnx_training.export": ("to_training",),
        "jax2onnx_training.session": ("TrainingSession", "open_training"),
        "jax2onnx_training.training": ("Training",),
    },
)
