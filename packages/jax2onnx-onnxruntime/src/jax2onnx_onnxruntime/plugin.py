"""The plugin of this distribution: the targets `onnxruntime` and `web`, the runtime of both, and that of targets without one here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_onnxruntime.stand_in import OrtStandIn
from jax2onnx_onnxruntime.target import OnnxRuntime
from jax2onnx_onnxruntime.web import Web

if TYPE_CHECKING:
    from jax2onnx_core.plugins.registry import Registry

__all__ = ["JAX2ONNX_API", "jax2onnx_register"]

JAX2ONNX_API = 1

# The marker of the project's hooks; the package that declares them is not needed to be one of them.
hookimpl = pluggy.HookimplMarker("jax2onnx")


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the target ONNX Runtime, which `to_onnx` exports for unless told otherwise, the one for browsers, and runtimes."""
    registry.target(OnnxRuntime())
    registry.target(Web())
    registry.runtime(OrtRuntime())
    registry.runtime(OrtStandIn())
