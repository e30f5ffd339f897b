"""The plugin of JAX's own primitives: every module with rules or composites is listed here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from jax2onnx_core import Case, Composites, Registry, Rules, hookimpl

from jax2onnx_lax.limitations import LIMITATIONS

__all__ = ["JAX2ONNX_API", "LIMITATIONS", "jax2onnx_register", "jax2onnx_testcases"]

JAX2ONNX_API = 1

#: The rooms of this package; each lists its own modules.
ROOMS = (
    "elementwise",
    "special",
    "complex",
    "linalg",
    "random",
    "indexing",
    "shape",
    "contract",
    "reduce",
    "control_flow",
    "recurrence",
    "sharding",
    "sizes",
    "nn",
)

#: Libraries that have a package of their own.
SUPPLIERS = {
    "flax.nnx": "jax2onnx-nnx",
    "flax.linen": "jax2onnx-linen",
    "equinox": "jax2onnx-equinox",
    "haiku": "jax2onnx-haiku",
    "keras": "jax2onnx-keras",
}


def _module_names() -> Iterator[str]:
    yield "jax2onnx_lax.fft"
    for room in ROOMS:
        for name in vars(importlib.import_module(f"jax2onnx_lax.{room}"))["MODULES"]:
            yield f"jax2onnx_lax.{room}.{name}"


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the rules and composites of all modules, and who knows the libraries that are built on JAX."""
    for module in map(importlib.import_module, _module_names()):
        declared = [v for v in vars(module).values() if isinstance(v, (Rules, Composites))]
        registry.add(*declared)
    registry.suppliers.update(SUPPLIERS)


@hookimpl
def jax2onnx_testcases() -> list[Case]:
    """The cases of all modules."""
    cases: list[Case] = []
    for name in _module_names():
        cases += vars(importlib.import_module(f"{name}_cases"))["cases"]
    return cases
