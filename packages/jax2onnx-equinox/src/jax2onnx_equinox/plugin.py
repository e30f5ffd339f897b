"""The entry point of `jax2onnx-equinox`."""

from __future__ import annotations

import importlib

from jax2onnx_core import Case, Registry, hookimpl

__all__ = ["JAX2ONNX_API", "JAX2ONNX_LIBRARY", "jax2onnx_register", "jax2onnx_testcases"]

JAX2ONNX_API = 1
JAX2ONNX_LIBRARY = "equinox"

# Modules with `composites`; `<module>_cases` holds their cases.
_MODULES = ("activation", "attention", "checks", "dropout", "embedding", "linear", "normalization", "pooling")
# Layers that are exported well without a composite.
_OTHERS = ("conv",)


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the adapters of modules and states, and the composites that bind layers to operations of `jax2onnx-lax`."""
    from jax2onnx_equinox import checks
    from jax2onnx_equinox._adapter import adapt, adapt_state, is_module

    registry.adapter("equinox:Module", adapt, claims=is_module)
    registry.adapter("equinox.nn:State", adapt_state)
    for name in _MODULES:
        registry.add(importlib.import_module(f"jax2onnx_equinox.{name}").composites)
    registry.add(checks.rules)


@hookimpl
def jax2onnx_testcases() -> list[Case]:
    """The cases of all layers."""
    modules = [importlib.import_module(f"jax2onnx_equinox.{name}_cases") for name in (*_MODULES, *_OTHERS)]
    return [case for module in modules for case in module.cases]
