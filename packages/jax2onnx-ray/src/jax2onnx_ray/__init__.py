"""Exported programs on a Ray cluster: inference and evaluation over data sets, serving, and stages as a pipeline."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_ray.datasets import calls, results
    from jax2onnx_ray.inference import map_program
    from jax2onnx_ray.pipeline import Pipeline
    from jax2onnx_ray.serving import application
    from jax2onnx_ray.verification import verify

__all__ = ["Pipeline", "application", "calls", "map_program", "results", "verify"]
__version__ = "0.1.0"

# Ray is imported by what needs it.
_LAZY = {
    "Pipeline": "jax2onnx_ray.pipeline",
    "application": "jax2onnx_ray.serving",
    "calls": "jax2onnx_ray.datasets",
    "map_program": "jax2onnx_ray.inference",
    "results": "jax2onnx_ray.datasets",
    "verify": "jax2onnx_ray.verification",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
