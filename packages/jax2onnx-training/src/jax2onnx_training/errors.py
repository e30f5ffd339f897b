"""`LossError`: a step whose loss is NaN or infinite."""

from __future__ import annotations

from jax2onnx_graph.errors import Jax2OnnxError

__all__ = ["LossError"]


class LossError(Jax2OnnxError):
    """The loss of a step is NaN or infinite; the session has the states of before that step."""
