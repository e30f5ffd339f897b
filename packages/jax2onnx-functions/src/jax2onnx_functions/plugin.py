"""The plugin: functions and custom operators."""

from __future__ import annotations

from jax2onnx_core import Registry, hookimpl

__all__ = ["JAX2ONNX_API", "jax2onnx_register"]

JAX2ONNX_API = 1


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the rules for functions and custom operators."""
