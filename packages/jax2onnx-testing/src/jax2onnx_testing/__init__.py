"""The testing kit of jax2onnx plugins: cases become tests, graphs are compared with expectations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_testing.checks import check_program, check_variant
    from jax2onnx_testing.emitter import expectation_of
    from jax2onnx_testing.matcher import match_graph

__all__ = ["check_program", "check_variant", "expectation_of", "match_graph"]
__version__ = "0.1.0"

# pytest imports this package whenever it is installed: what needs JAX comes at first use.
_LAZY = {
    "check_program": "jax2onnx_testing.checks",
    "check_variant": "jax2onnx_testing.checks",
    "expectation_of": "jax2onnx_testing.emitter",
    "match_graph": "jax2onnx_testing.matcher",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
