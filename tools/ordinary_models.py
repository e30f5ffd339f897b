"""The models of `tests-integration/`, for tools, which are no package with the tests."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["control_transformer", "library_models", "recurrent_models", "ten_models"]


def ten_models() -> Mapping[str, Callable[[], Any]]:
    """The makers of the ten ordinary models, by name."""
    makers: Mapping[str, Callable[[], Any]] = _imported("ten_models").MODELS
    return makers


def control_transformer(**options: Any) -> Any:
    """A transformer that sees a window of frames, and steers; the options are those of its class."""
    return _imported("cached_models").ControlTransformer(**options)


def library_models() -> Mapping[str, Callable[[], Any]]:
    """The makers of the models in Flax Linen, by name."""
    examples = _imported("library_examples")
    return {f"Linen {name}": functools.partial(examples.bound, name) for name in examples.MODELS}


def recurrent_models() -> Any:
    """The module of recurrences over time."""
    return _imported("recurrent_models")


def _imported(module: str) -> Any:
    folder = str(Path(__file__).parent.parent / "tests-integration")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(module)
