"""The origins of a value: what of the exported function it holds, kept while passes rewrite the graph."""

from __future__ import annotations

from collections.abc import Iterable

from jax2onnx_graph._ir import ir

__all__ = ["add_origin", "drop_origins", "origins_of", "share_origins"]

_KEY = "jax2onnx.origins"


def origins_of(value: ir.Value) -> tuple[object, ...]:
    """What the value holds, as it was given to `add_origin`; empty where nothing is known."""
    found: tuple[object, ...] = value.meta.get(_KEY, ())
    return found


def add_origin(value: ir.Value, origin: object) -> None:
    """Say that the value holds `origin`, besides what it holds already."""
    value.meta[_KEY] = (*origins_of(value), origin)


def share_origins(old: ir.Value, new: ir.Value) -> None:
    """Let `new`, which equals `old`, hold what `old` holds."""
    if held := origins_of(old):
        new.meta[_KEY] = (*origins_of(new), *held)


def drop_origins(values: Iterable[ir.Value]) -> None:
    """The values no longer hold their origins, because their layout or their number of rows changed."""
    for value in values:
        value.meta.pop(_KEY, None)
