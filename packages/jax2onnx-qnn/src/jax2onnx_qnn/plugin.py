"""The plugin of this distribution: the target `qnn` and its runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

from jax2onnx_qnn.runtime import QnnRuntime
from jax2onnx_qnn.target import Qnn

if TYPE_CHECKING:
    from jax2onnx_core.plugins.registry import Registry

__all__ = ["JAX2ONNX_API", "jax2onnx_register"]

JAX2ONNX_API = 1

# The marker of the project's hooks; the package that declares them is not needed to be one of them.
hookimpl = pluggy.HookimplMarker("jax2onnx")


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the target QNN, and its runtime."""
    registry.target(Qnn())
    registry.runtime(QnnRuntime())
