"""The engine that turns JAX functions into ONNX models; it knows no operation, plugins do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_graph.build.builder import Value
    from jax2onnx_graph.facts.dims import SpecializedDim
    from jax2onnx_graph.limitations import Limitation
    from jax2onnx_graph.targets import Target

    from jax2onnx_core.frontend._composite import bind_composite
    from jax2onnx_core.frontend.activation import exporting
    from jax2onnx_core.frontend.sizes import size
    from jax2onnx_core.jaxprs import Aval, Dim, Jaxpr
    from jax2onnx_core.lowering.context import Context
    from jax2onnx_core.plugins import errors
    from jax2onnx_core.plugins.adapted import Adapted, AdaptedStates, AdaptedTraining, entry_of
    from jax2onnx_core.plugins.cases import Case, Construct, construct, expect_graph, with_dtype, with_rngs
    from jax2onnx_core.plugins.discovery import hookimpl
    from jax2onnx_core.plugins.registry import Registry
    from jax2onnx_core.plugins.rules import Call, Complex, Composites, Replacement, Rules
    from jax2onnx_core.program.export import to_onnx
    from jax2onnx_core.program.program import OnnxProgram

__all__ = [
    "Adapted", "AdaptedStates", "AdaptedTraining", "Aval", "Call", "Case", "Complex", "Composites", "Construct", "Context", "Dim", "Jaxpr",
    "Limitation", "OnnxProgram", "Registry", "Replacement", "Rules", "SpecializedDim", "Target", "Value", "bind_composite",
    "construct", "entry_of", "errors", "expect_graph", "exporting", "hookimpl", "size", "to_onnx", "with_dtype", "with_rngs",
]  # fmt: skip

__version__ = "0.1.0"

# JAX and ONNX take their time to import: every name comes at its first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_core.frontend.activation": ("exporting",),
        "jax2onnx_core.frontend._composite": ("bind_composite",),
        "jax2onnx_core.frontend.sizes": ("size",),
        "jax2onnx_core.jaxprs": ("Aval", "Dim", "Jaxpr"),
        "jax2onnx_core.lowering.context": ("Context",),
        "jax2onnx_graph.limitations": ("Limitation",),
        "jax2onnx_core.plugins.cases": ("Case", "Construct", "construct", "expect_graph", "with_dtype", "with_rngs"),
        "jax2onnx_core.plugins.discovery": ("hookimpl",),
        "jax2onnx_core.plugins.registry": ("Registry",),
        "jax2onnx_core.plugins.adapted": ("Adapted", "AdaptedStates", "AdaptedTraining", "entry_of"),
        "jax2onnx_core.plugins": ("errors",),
        "jax2onnx_core.plugins.rules": ("Call", "Complex", "Composites", "Replacement", "Rules"),
        "jax2onnx_core.program.export": ("to_onnx",),
        "jax2onnx_core.program.program": ("OnnxProgram",),
        "jax2onnx_graph.build.builder": ("Value",),
        "jax2onnx_graph.facts.dims": ("SpecializedDim",),
        "jax2onnx_graph.targets": ("Target",),
    },
)
