"""Training steps as programs: loss, gradient and optimizer over one set of weights, run where models run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax2onnx_training.epochs import Epoch, train
    from jax2onnx_training.errors import LossError
    from jax2onnx_training.export import to_training
    from jax2onnx_training.session import TrainingSession, open_training
    from jax2onnx_training.training import Training

__all__ = ["Epoch", "LossError", "Training", "TrainingSession", "open_training", "to_training", "train"]

__version__ = "0.1.0"

# Where a training only runs, nothing of JAX is there: every name comes at its first use.
_HOME_OF = {
    "Epoch": "epochs", "LossError": "errors", "Training": "training", "TrainingSession": "session", "open_training": "session", "to_training": "export", "train": "epochs",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = vars(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"))[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
