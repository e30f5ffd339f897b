"""TensorRT as a target: its published operator table, optimisation profiles, and scripts that build its engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_tensorrt.folder import write_folder
    from jax2onnx_tensorrt.profiles import EngineProfiles, engine_profiles
    from jax2onnx_tensorrt.script import build_script
    from jax2onnx_tensorrt.target import TensorRt

__all__ = ["EngineProfiles", "TensorRt", "build_script", "engine_profiles", "write_folder"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_tensorrt.folder": ("write_folder",),
        "jax2onnx_tensorrt.profiles": ("EngineProfiles", "engine_profiles"),
        "jax2onnx_tensorrt.script": ("build_script",),
        "jax2onnx_tensorrt.target": ("TensorRt",),
    },
)
