"""The testing kit of jax2onnx plugins: cases become tests, graphs are compared with expectations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_testing.checks import check_program, check_variant
    from jax2onnx_testing.emitter import expectation_of
    from jax2onnx_testing.matcher import match_graph

__all__ = ["check_program", "check_variant", "expectation_of", "match_graph"]
__version__ = "0.1.0"

# pytest imports this package whenever it is installed: what needs JAX comes at first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_testing.checks": ("check_program", "check_variant"),
        "jax2onnx_testing.emitter": ("expectation_of",),
        "jax2onnx_testing.matcher": ("match_graph",),
    },
)
