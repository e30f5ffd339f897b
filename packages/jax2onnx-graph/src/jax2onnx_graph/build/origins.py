"""The origins of a value: the results of the exported function that it holds, recorded while passes rewrite the graph.

Passes do not import this module: `GraphEditor` keeps the record for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from jax2onnx_graph._ir import ir

__all__ = ["add_origin", "drop_origins", "origins_of", "share_origins"]

_KEY = "jax2onnx.origins"


def origins_of(value: ir.Value) -> tuple[object, ...]:
    """The results that the value holds, as they were given to `add_origin`; none where nothing is recorded."""
    found: tuple[object, ...] = value.meta.get(_KEY, ())
    return found


def add_origin(value: ir.Value, origin: object) -> None:
    """Record that the value holds the result `origin`, besides those that it holds already."""
    value.meta[_KEY] = (*origins_of(value), origin)


def share_origins(old: ir.Value, new: ir.Value) -> None:
    """Record that `new`, which equals `old`, holds the same results."""
    if held := origins_of(old):
        new.meta[_KEY] = (*origins_of(new), *held)


def drop_origins(values: Iterable[ir.Value]) -> None:
    """Record that values hold no results any more, because their elements or the order of these changed."""
    for value in values:
        value.meta.pop(_KEY, None)
