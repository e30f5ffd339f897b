"""The names that a finished model shows: weights under the names of the user's parameters, values after their nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.traversal import all_values, walk

__all__ = ["common_name", "finish_names"]

# What the IR calls a value that nobody named.
_UNNAMED = re.compile(r"val_\d+")


def common_name(weights: Sequence[ir.Value]) -> str:
    """A name for a constant that is made from several weights: the common beginning and end of their paths.

    `cell.ii.kernel` and `cell.if_.kernel` make `cell.kernel`, `norm.mean` and `norm.var` make `norm`; constants
    without a name of their own count nothing.
    """
    paths = [value.name.split(".") for value in weights if value.name and not value.name.startswith("const")]
    front = _shared(paths)
    back = _shared([path[len(front) :][::-1] for path in paths])[::-1]
    return ".".join([*front, *back]) or "const"


def _shared(paths: Sequence[Sequence[str]]) -> list[str]:
    """The longest beginning that all paths share."""
    return [parts[0] for parts in itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))]


def finish_names(model: ir.Model, weights: Collection[str]) -> None:
    """Give what was made from one of the `weights` its name, with a number if that is taken, and values without a name that
    of their node.
    """
    initializers = model.graph.initializers
    nodes = [*walk(model.graph), *(node for function in model.functions.values() for node in walk(function))]
    values = [value for node in nodes for value in node.outputs]
    taken = Names(value.name for value in all_values(model) if value.name)
    for value in list(initializers.values()):
        source = _source(value.name or "", weights)
        if source is not None and value.name != source:
            value.name = taken.unique(source)
    for value in values:
        node = value.producer()
        if node is not None and node.name and _UNNAMED.fullmatch(value.name or "") and not value.is_graph_output():
            value.name = taken.unique(node.name)


def _source(name: str, weights: Collection[str]) -> str | None:
    """The weight that a constant called `<weight>.<what was done>_<number>` was made from."""
    while name and name not in weights:
        name = name[: max(name.rfind("."), name.rfind("_"), 0)]
    return name or None
