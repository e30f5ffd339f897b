"""The entry point of `jax2onnx-haiku`."""

from __future__ import annotations

import importlib

from jax2onnx_core import Case, Registry, hookimpl

__all__ = ["JAX2ONNX_API", "JAX2ONNX_LIBRARY", "jax2onnx_register", "jax2onnx_testcases"]

JAX2ONNX_API = 1
JAX2ONNX_LIBRARY = "haiku"

# Modules with `composites`; `<module>_cases` holds their cases.
_MODULES = ("attention", "normalization", "pooling", "recurrent")
# Layers that are exported well without a composite.
_OTHERS = ("conv", "embedding", "linear")


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the adapters of transformed functions, and the composites that bind their layers to operations of `jax2onnx-lax`."""
    from jax2onnx_haiku._adapter import register

    register(registry)
    for name in _MODULES:
        registry.add(importlib.import_module(f"jax2onnx_haiku.{name}").composites)


@hookimpl
def jax2onnx_testcases() -> list[Case]:
    """The cases of all layers."""
    return [
        case for name in (*_MODULES, *_OTHERS) for case in importlib.import_module(f"jax2onnx_haiku.{name}_cases").cases
    ]
