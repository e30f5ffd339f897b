"""Text from exported decoders: which inputs and outputs make a model a decoder, the loop around it, and folders for other runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_generation.decoders.declaration import decoder_metadata
    from jax2onnx_generation.decoders.kinds import Kind, StateKind
    from jax2onnx_generation.loop.generator import Generator
    from jax2onnx_generation.loop.opening import open_decoder
    from jax2onnx_generation.loop.results import Generation, Piece, Stop

__all__ = ["Generation", "Generator", "Kind", "Piece", "StateKind", "Stop", "decoder_metadata", "open_decoder"]
__version__ = "0.1.0"

# Writers of folders, which the command line imports with every export, need no generator.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_generation.decoders.declaration": ("decoder_metadata",),
        "jax2onnx_generation.decoders.kinds": ("Kind", "StateKind"),
        "jax2onnx_generation.loop.generator": ("Generator",),
        "jax2onnx_generation.loop.opening": ("open_decoder",),
        "jax2onnx_generation.loop.results": ("Generation", "Piece", "Stop"),
    },
)
