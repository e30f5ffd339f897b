"""The entry point of `jax2onnx-keras`."""

from __future__ import annotations

import importlib
import os

from jax2onnx_core import Case, Registry, hookimpl

__all__ = ["JAX2ONNX_API", "JAX2ONNX_LIBRARY", "jax2onnx_register", "jax2onnx_testcases"]

JAX2ONNX_API = 1
JAX2ONNX_LIBRARY = "keras"

# Modules with `composites`; `<module>_cases` holds their cases.
_MODULES = (
    "activations",
    "attention",
    "embedding",
    "linear",
    "normalization",
    "pooling",
    "resizing",
    "time_distributed",
)
# Layers that are exported well without a composite.
_OTHERS = ("conv", "recurrent")


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the adapter of layers and models, and the composites that bind layers to operations of `jax2onnx-lax`."""
    from jax2onnx_keras._adapter import adapt

    registry.adapter("keras:Layer", adapt)
    for name in _MODULES:
        registry.add(importlib.import_module(f"jax2onnx_keras.{name}").composites)


@hookimpl
def jax2onnx_testcases() -> list[Case]:
    """The cases of all layers. Keras chooses its backend when it is imported, which they do."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    return [
        case for name in (*_MODULES, *_OTHERS) for case in importlib.import_module(f"jax2onnx_keras.{name}_cases").cases
    ]
