"""The entry point of `jax2onnx-nnx`."""

from __future__ import annotations

import importlib
from typing import Any

from jax2onnx_core import hookimpl

__all__ = ["JAX2ONNX_API", "jax2onnx_register", "jax2onnx_testcases"]

JAX2ONNX_API = 1

# Modules with `rules` and `composites`; `<module>_cases` holds their cases.
_MODULES = ("attention", "conv", "embedding", "linear", "normalization", "pooling", "recurrent")


@hookimpl
def jax2onnx_register(registry: Any) -> None:
    """Contribute the adapter of modules, and the rules and composites of their layers."""
    from jax2onnx_nnx.adapter import adapt

    registry.adapter("flax.nnx:Module", adapt)
    for name in _MODULES:
        module = importlib.import_module(f"jax2onnx_nnx.{name}")
        registry.add(module.rules, module.composites)


@hookimpl
def jax2onnx_testcases() -> list[Any]:
    """The cases of all layers."""
    return [case for name in _MODULES for case in importlib.import_module(f"jax2onnx_nnx.{name}_cases").cases]
