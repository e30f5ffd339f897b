"""TensorRT as a target: its published operator table, optimisation profiles, and scripts that build its engines."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_tensorrt.folder import write_folder
    from jax2onnx_tensorrt.profiles import EngineProfiles, engine_profiles
    from jax2onnx_tensorrt.script import build_script
    from jax2onnx_tensorrt.target import TensorRt

__all__ = ["EngineProfiles", "TensorRt", "build_script", "engine_profiles", "write_folder"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
_LAZY = {
    "EngineProfiles": "jax2onnx_tensorrt.profiles",
    "TensorRt": "jax2onnx_tensorrt.target",
    "build_script": "jax2onnx_tensorrt.script",
    "engine_profiles": "jax2onnx_tensorrt.profiles",
    "write_folder": "jax2onnx_tensorrt.folder",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
