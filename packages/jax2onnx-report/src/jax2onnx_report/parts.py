"""`Part`: a model taken apart by its modules, as the names of its nodes tell them."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping

from jax2onnx_graph import ir
from jax2onnx_graph.module_names import module_of
from jax2onnx_graph.traversal import walk

__all__ = ["Part", "line_text", "parts_of", "user_lines"]

_LIBRARIES = re.compile(r"[^\s(]*(?:site|dist)-packages[/\\]")
# The folders of a file but the last one, which are the affair of whoever exported the model.
_FOLDERS = re.compile(r"(?<![^\s(])(?:/|[A-Za-z]:[/\\])(?:[^\s(/\\:]+[/\\])*(?=[^\s(/\\:]+[/\\][^\s(/\\:]+:\d)")


@dataclasses.dataclass
class Part:
    """A module, or all of a model.

    Attributes:
      name: its own; "" for the model.
      path: its name with those of the modules around it.
      nodes: those of the module itself and of the modules in it, subgraphs included.
      parts: the modules in it by their names.
    """

    name: str
    path: str
    nodes: list[ir.Node] = dataclasses.field(default_factory=list)
    parts: dict[str, Part] = dataclasses.field(default_factory=dict)

    @property
    def operators(self) -> list[tuple[str, int]]:
        """Number of nodes of each operator, the most frequent first."""
        return collections.Counter(node.op_type for node in self.nodes).most_common()

    @property
    def weights(self) -> dict[str, int]:
        """The weights that its nodes read → their bytes."""
        read = {value for node in self.nodes for value in node.inputs if value is not None and value.is_initializer()}
        return {value.name or "": value.const_value.nbytes for value in read if value.const_value is not None}

    def seconds(self, times: Mapping[str, float]) -> float:
        """Seconds that its nodes took together, given those of each node."""
        return sum(times.get(node.name or "", 0.0) for node in self.nodes)

    def all_parts(self) -> Iterator[Part]:
        """The modules in it, each followed by those in that."""
        for part in self.parts.values():
            yield part
            yield from part.all_parts()


def parts_of(model: ir.Model) -> Part:
    """The modules of a model, in the order in which they run."""
    whole = Part("", "")
    for root in (model.graph, *(function.graph for function in model.functions.values())):
        for node in walk(root):
            part = whole
            part.nodes.append(node)
            for name in module_of(node):
                path = f"{part.path}.{name}" if part.path else name
                part = part.parts.setdefault(name, Part(name, path))
                part.nodes.append(node)
    return whole


def user_lines(model: ir.Model) -> dict[str, list[ir.Node]]:
    """The lines of source text that nodes remember → their nodes, those with most nodes first."""
    found: dict[str, list[ir.Node]] = {}
    for node in parts_of(model).nodes:
        if line := node.metadata_props.get("source"):
            found.setdefault(line, []).append(node)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def line_text(text: str) -> str:
    """A text with lines of source code in it, without the paths to where libraries and projects are.

    >>> line_text("/usr/lib/python3.12/site-packages/flax/nnx/nn/linear.py:401 (Linear.__call__)")
    'flax/nnx/nn/linear.py:401 (Linear.__call__)'
    >>> line_text("/home/ada/digits/models/net.py:12 (Net.__call__)")
    'models/net.py:12 (Net.__call__)'
    """
    return _FOLDERS.sub("", _LIBRARIES.sub("", text))
