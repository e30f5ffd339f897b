"""The casts of a model, and why they are there."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.dtypes import type_name
from jax2onnx_graph.metadata import reason_of
from jax2onnx_graph.traversal import all_nodes

__all__ = ["CastGroup", "casts_of"]


@dataclasses.dataclass(frozen=True)
class CastGroup:
    """Casts between the same types for the same reason.

    Attributes:
      before, after: the types.
      reason: why they are there.
      inserted: whether the exporter put them there, and not the function or a rule.
      names: those of the nodes.
    """

    before: str
    after: str
    reason: str
    inserted: bool
    names: Sequence[str]


def casts_of(model: ir.Model) -> list[CastGroup]:
    """The casts of a model by types and reasons, first those that were inserted."""
    found: dict[tuple[str, str, str, bool], list[str]] = collections.defaultdict(list)
    for node in all_nodes(model):
        if node.op_type == "Cast" and not node.domain:
            operand, result = node.inputs[0], node.outputs[0]
            types = [type_name(v.dtype) if v is not None and v.dtype else "unknown" for v in (operand, result)]
            reason = reason_of(node)
            found[types[0], types[1], reason or _origin(node), bool(reason)].append(node.name or result.name or "")
    groups = [CastGroup(*key, names) for key, names in found.items()]
    return sorted(groups, key=lambda group: (not group.inserted, -len(group.names)))


def _origin(node: ir.Node) -> str:
    """The operation or module that a cast belongs to by its name: `<operation>.Cast` or `<module>/Cast`."""
    module, slash, _ = (node.name or "").rpartition("/")
    operation = (node.name or "").rpartition(".")[0]
    if slash:
        return f"part of {module}"
    return f"part of {operation}" if operation else "not known"
