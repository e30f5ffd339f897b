"""The plugin of what JAX itself ships: every module with rules or composites is listed here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from jax2onnx_core import Case, Composites, Registry, Rules, hookimpl

from jax2onnx_lax.limitations import LIMITATIONS
from jax2onnx_lax.passes import register_passes

__all__ = ["JAX2ONNX_API", "LIMITATIONS", "MODULES", "jax2onnx_register", "jax2onnx_testcases"]

JAX2ONNX_API = 1

# Modules of this package that declare `rules` or `composites`; `<module>_cases` holds their cases.
MODULES = (
    "bits",
    "calls",
    "complex",
    "complex_elementary",
    "complex_inverse",
    "complex_operations",
    "control_flow",
    "conv",
    "conversion",
    "cumulative",
    "dot_general",
    "effects",
    "elementwise",
    "fft",
    "folds",
    "gather",
    "image",
    "integer",
    "linalg_eig",
    "linalg_eigh",
    "linalg_hessenberg",
    "linalg_householder",
    "linalg_lu",
    "linalg_qr",
    "linalg_schur",
    "linalg_solve",
    "linalg_svd",
    "linalg_triangular",
    "nn",
    "nn_attention",
    "nn_reductions",
    "pad",
    "random",
    "reductions",
    "runtime_checks",
    "scatter",
    "select_windows",
    "slicing",
    "sorting",
    "special_bessel",
    "special_elementary",
    "special_erf",
    "special_gamma",
    "structural",
    "windows",
)


def _modules() -> Iterator[ModuleType]:
    for name in MODULES:
        yield importlib.import_module(f"jax2onnx_lax.{name}")


@hookimpl
def jax2onnx_register(registry: Registry) -> None:
    """Contribute the rules and composites of all modules."""
    for module in _modules():
        declared = [v for v in vars(module).values() if isinstance(v, (Rules, Composites))]
        registry.add(*declared)
    register_passes(registry)


@hookimpl
def jax2onnx_testcases() -> list[Any]:
    """The cases of all modules."""
    cases: list[Case] = []
    for name in MODULES:
        cases += vars(importlib.import_module(f"jax2onnx_lax.{name}_cases"))["cases"]
    return cases
