"""Text from exported decoders: which inputs and outputs make a model a decoder, the loop around it, and folders for other runtimes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_generation.decoders.declaration import decoder_metadata
    from jax2onnx_generation.decoders.kinds import Kind, StateKind
    from jax2onnx_generation.loop.generator import Generator
    from jax2onnx_generation.loop.opening import open_decoder
    from jax2onnx_generation.loop.results import Generation, Piece, Stop

__all__ = ["Generation", "Generator", "Kind", "Piece", "StateKind", "Stop", "decoder_metadata", "open_decoder"]
__version__ = "0.1.0"

# Writers of folders, which the command line imports with every export, need no generator.
_LAZY = {
    "Generation": "jax2onnx_generation.loop.results",
    "Generator": "jax2onnx_generation.loop.generator",
    "Kind": "jax2onnx_generation.decoders.kinds",
    "Piece": "jax2onnx_generation.loop.results",
    "StateKind": "jax2onnx_generation.decoders.kinds",
    "Stop": "jax2onnx_generation.loop.results",
    "decoder_metadata": "jax2onnx_generation.decoders.declaration",
    "open_decoder": "jax2onnx_generation.loop.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
