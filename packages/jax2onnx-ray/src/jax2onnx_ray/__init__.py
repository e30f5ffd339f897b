"""Exported programs on a Ray cluster: inference and evaluation over data sets, serving, and stages as a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_ray.datasets import calls, results
    from jax2onnx_ray.inference import map_program
    from jax2onnx_ray.pipeline import Pipeline
    from jax2onnx_ray.serving import application
    from jax2onnx_ray.verification import verify

__all__ = ["Pipeline", "application", "calls", "map_program", "results", "verify"]
__version__ = "0.1.0"

# Ray is imported by what needs it.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_ray.datasets": ("calls", "results"),
        "jax2onnx_ray.inference": ("map_program",),
        "jax2onnx_ray.pipeline": ("Pipeline",),
        "jax2onnx_ray.serving": ("application",),
        "jax2onnx_ray.verification": ("verify",),
    },
)
