"""The engine that turns JAX functions into ONNX models; it knows no operation, plugins do."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jax2onnx_graph.targets import Target

from jax2onnx_core.plugins import errors
from jax2onnx_core.plugins.adapted import Adapted
from jax2onnx_core.plugins.cases import Case, Limitation, construct, expect_graph, with_dtype, with_rngs
from jax2onnx_core.plugins.complex_pair import Complex
from jax2onnx_core.plugins.discovery import hookimpl
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.plugins.rules import Call, Composites, Rules

if TYPE_CHECKING:
    from jax2onnx_core.frontend.activation import exporting
    from jax2onnx_core.frontend.composite import bind_composite
    from jax2onnx_core.lowering.context import Context
    from jax2onnx_core.program.export import to_onnx
    from jax2onnx_core.program.program import OnnxProgram
    from jax2onnx_core.symbols.symbols import SpecializedDim

__all__ = [
    "Adapted",
    "Call",
    "Case",
    "Complex",
    "Composites",
    "Context",
    "Limitation",
    "OnnxProgram",
    "Registry",
    "Rules",
    "SpecializedDim",
    "Target",
    "bind_composite",
    "construct",
    "errors",
    "expect_graph",
    "exporting",
    "hookimpl",
    "to_onnx",
    "with_dtype",
    "with_rngs",
]

__version__ = "0.1.0"

# These need JAX and ONNX, which take their time to import: they come at first use.
_LAZY = {
    "Context": "jax2onnx_core.lowering.context",
    "OnnxProgram": "jax2onnx_core.program.program",
    "SpecializedDim": "jax2onnx_core.symbols.symbols",
    "bind_composite": "jax2onnx_core.frontend.composite",
    "exporting": "jax2onnx_core.frontend.activation",
    "to_onnx": "jax2onnx_core.program.export",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = vars(importlib.import_module(_LAZY[name]))[name]
    globals()[name] = value
    return value
