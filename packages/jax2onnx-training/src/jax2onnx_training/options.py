"""The options that a training hands to `to_onnx`, and to the runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

__all__ = ["ExportOptions", "SessionOptions"]


class ExportOptions(TypedDict, total=False):
    """Options of `to_onnx` that are those of all programs of a training."""

    constraints: Sequence[str]
    opset: int | None
    target: str | None
    x64: bool | None
    assume: Sequence[str]
    plugins: Iterable[object]
    provenance: bool
    inline_functions: bool


class SessionOptions(TypedDict, total=False):
    """Options of `Bundle.session` that are about how the runtime runs."""

    threads: int | None
    providers: Sequence[object] | None
    session_options: object
    graph_optimization_level: str | None
    share_weights: bool
    arena: bool
    flush_denormals: bool
